-- Written by version 0.1.0 (Agent, Shelf and Ledger of commit d09c4ca), dumped by sqlite3.
BEGIN TRANSACTION;
CREATE TABLE balances (
        run TEXT NOT NULL, event TEXT NOT NULL, agreed INTEGER NOT NULL, spent INTEGER NOT NULL,
        PRIMARY KEY (run, event));
INSERT INTO "balances" VALUES('batches','{"kind":"GaussianDpEvent","noise_multiplier":7.317358482013304}',3,2);
INSERT INTO "balances" VALUES('sampled','{"event":{"kind":"GaussianDpEvent","noise_multiplier":1.2},"kind":"PoissonSampledDpEvent","sampling_probability":0.05}',20,0);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, body TEXT NOT NULL, head TEXT NOT NULL UNIQUE);
INSERT INTO "entries" VALUES(1,'create','','{"data":"2369da91baabb53cf011c82f8803a3d07ec6d0c085052a9f42286b9a52c6e52b","dataset":"patients","place":"65024:2236465","relation":"zero-out","time":"2026-11-19T02:03:19Z"}','a4235e0376f9b4339cb731a9434dfd6031d8d9cf86a08969360d5f2402502b24');
INSERT INTO "entries" VALUES(2,'reserve','batches','{"digest":"753ae9e31697d8b6307043bda0047663262ffae713a6f67b320cdee3b4c746dd","holds":true,"tally":[[{"kind":"GaussianDpEvent","noise_multiplier":7.317358482013304},3]],"terms":{"agents":1,"algorithm":"dpsgd","alpha":[],"classes":2,"components_share":0.1,"delta":1e-06,"deltas":[],"epsilon":1.0,"epsilons":[],"non_crossing":false,"paper_noise":false,"penalty":"l2","policy":{"algorithms":["pvp","dvp","dp-admm","dpsgd","obj-g","obj-l","out-g","out-l","ps-admm","ps-admm-anchor","ps-admm-sgd","ps-admm-full","ps-admm-paper","pvp-graph","dvp-graph","m-admm-penalty","private-r-admm","private-mr-admm","fdp-admm","private-components","dp-accelerated","private-column-moments"],"approval":"policy","dataset":"patients","delta":1e-06,"epsilon":4.0,"losses":["logistic","softmax","squared","smoothed-hinge","quantile","smoothed-quantile","quantiles","capped-logistic","capped-softmax"],"norm_bound":1.0,"records_per_person":1,"relation":"zero-out","reserve":true,"smallest_count":1},"precision":"float64","relation":"zero-out","rounds":3,"set":"whole","strength":1e-06,"tau":[],"width":3},"time":"2026-11-19T02:03:19Z"}','90fa9c573ca36df0a551b13209e50ea5c40ce4f27dc5e7c31d6e12fd1c5f931a');
INSERT INTO "entries" VALUES(3,'debit','batches','{"event":{"kind":"GaussianDpEvent","noise_multiplier":7.317358482013304},"inputs":"2e6b978051115dd204f734feb40c650b6aeb8a991c12787e63ed79b9240f6c19","step":"1","time":"2026-11-19T02:03:19Z","value":"81818c4b5d9ca0c33198c0d2189c2e0d0ddbdff2c1caf2c794819849124cc437"}','aecc7f69418f955a4d580c871e3d5dd93d4b365901134bd12b38f8372ddbbf54');
INSERT INTO "entries" VALUES(4,'debit','batches','{"event":{"kind":"GaussianDpEvent","noise_multiplier":7.317358482013304},"inputs":"5f64f1d8b09fb62ebdf47e8426d8fb77f241e0ec180de32da599c9e4d64674ba","step":"2","time":"2026-11-19T02:03:19Z","value":"6e8694d446109be4cd9a15b3c4b1d52177eec28623c06c27b533ce9d3fd1d403"}','1b1a69a8fe69ed0b8e9ef9e43c19dc8455e6c5adce6cd800835dbbd526c92c02');
INSERT INTO "entries" VALUES(5,'finish','batches','{"given_back":[[{"kind":"GaussianDpEvent","noise_multiplier":7.317358482013304},1]],"time":"2026-11-19T02:03:19Z"}','638b2035ed8f97144c06f8e8a6acf2dbd73b1e158cf9e24bde319aed47edbb09');
INSERT INTO "entries" VALUES(6,'reserve','sampled','{"digest":"t","holds":true,"tally":[[{"event":{"kind":"GaussianDpEvent","noise_multiplier":1.2},"kind":"PoissonSampledDpEvent","sampling_probability":0.05},20]],"terms":{"algorithm":"ps-admm","policy":{"delta":1e-06,"epsilon":4.0}},"time":"2026-11-19T02:03:20Z"}','0768dbdb338c0f555fd1626c91ab614bdf61faac2ecbfbedd87235af85d75182');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('dataset','patients');
INSERT INTO "meta" VALUES('data','2369da91baabb53cf011c82f8803a3d07ec6d0c085052a9f42286b9a52c6e52b');
INSERT INTO "meta" VALUES('relation','zero-out');
INSERT INTO "meta" VALUES('place','65024:2236465');
INSERT INTO "meta" VALUES('schema','2');
INSERT INTO "meta" VALUES('key','f2e51bc1259c02ef56facc821876eb265b486e49111b47ec3c706a1fef5fa740');
INSERT INTO "meta" VALUES('locked','');
CREATE TABLE refusals (reason TEXT PRIMARY KEY, times INTEGER NOT NULL, last TEXT NOT NULL);
INSERT INTO "refusals" VALUES('run ''never'' was not joined.',1,'2026-11-19T02:03:19Z');
CREATE TABLE releases (
        run TEXT NOT NULL, step TEXT NOT NULL, inputs TEXT NOT NULL, entry INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (run, step));
INSERT INTO "releases" VALUES('batches','1','2e6b978051115dd204f734feb40c650b6aeb8a991c12787e63ed79b9240f6c19',3,X'5B5B2276616C7565222C223C6638222C5B312C335D5D5D0A00006020F74CAFBF000010E2210BBEBF00000090013458BF');
INSERT INTO "releases" VALUES('batches','2','5f64f1d8b09fb62ebdf47e8426d8fb77f241e0ec180de32da599c9e4d64674ba',4,X'5B5B2276616C7565222C223C6638222C5B312C335D5D5D0A00008CC0A06FDDBF0000C02E4F80BBBF0000203B2992C5BF');
CREATE TABLE runs (
        name TEXT PRIMARY KEY, terms_digest TEXT NOT NULL, terms TEXT NOT NULL, holds INTEGER NOT NULL,
        finished INTEGER NOT NULL);
INSERT INTO "runs" VALUES('batches','753ae9e31697d8b6307043bda0047663262ffae713a6f67b320cdee3b4c746dd','{"agents":1,"algorithm":"dpsgd","alpha":[],"classes":2,"components_share":0.1,"delta":1e-06,"deltas":[],"epsilon":1.0,"epsilons":[],"non_crossing":false,"paper_noise":false,"penalty":"l2","policy":{"algorithms":["pvp","dvp","dp-admm","dpsgd","obj-g","obj-l","out-g","out-l","ps-admm","ps-admm-anchor","ps-admm-sgd","ps-admm-full","ps-admm-paper","pvp-graph","dvp-graph","m-admm-penalty","private-r-admm","private-mr-admm","fdp-admm","private-components","dp-accelerated","private-column-moments"],"approval":"policy","dataset":"patients","delta":1e-06,"epsilon":4.0,"losses":["logistic","softmax","squared","smoothed-hinge","quantile","smoothed-quantile","quantiles","capped-logistic","capped-softmax"],"norm_bound":1.0,"records_per_person":1,"relation":"zero-out","reserve":true,"smallest_count":1},"precision":"float64","relation":"zero-out","rounds":3,"set":"whole","strength":1e-06,"tau":[],"width":3}',1,1);
INSERT INTO "runs" VALUES('sampled','t','{"algorithm":"ps-admm","policy":{"delta":1e-06,"epsilon":4.0}}',1,0);
CREATE TABLE states (run TEXT PRIMARY KEY, entry INTEGER NOT NULL, arrays BLOB NOT NULL, mark TEXT NOT NULL);
COMMIT;
