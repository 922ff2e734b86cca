"""Every script that took over an owner's machine in 0.1.0, and the tests that show what has become of it.

The scripts were written against 0.1.0 and cannot be run against what has taken its place: there are no kits, no jobs
and no listeners. So each of them is named here with the tests that try the same again, or show that there is nothing
left to address; where FLARE is used, its site is tried as well.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TRIED_AGAIN: dict[str, tuple[str, ...]] = {
    # 1: whoever asks runs code at an owner
    "rce.py, by the coordinator": (
        "grpc/test_takeovers.py::test_an_archive_from_the_coordinator_is_not_unpacked_and_not_run",
        "grpc/test_takeovers.py::test_there_is_no_command_to_deploy_or_start_anything",
        "grpc/test_hostile_coordinator.py::test_the_list_of_methods_is_the_whole_of_what_can_be_asked",
        "flare/test_guard.py::test_a_job_that_is_deployed_is_the_owners_own_and_the_archive_is_not_read",
        "flare/test_processes.py::test_a_jobs_own_code_never_arrives_at_an_owner_and_no_process_listens",
    ),
    "rce.py, by another owner through an honest coordinator": (
        "grpc/test_takeovers.py::"
        "test_an_archive_from_another_owner_through_an_honest_coordinator_reaches_an_inbox_that_refuses_it",
        "flare/test_guard.py::test_only_the_server_and_this_sites_own_processes_are_heard",
        "flare/test_apps.py::test_letters_of_owners_that_run_nothing_together_are_not_passed_on",
    ),
    # 2: what lies in a folder that others made
    "planted.py": (
        "processes/test_federation.py::test_an_agent_listens_nowhere_starts_nothing_and_has_imported_no_flare",
        "client/test_owner_folder.py::test_folder_that_somebody_else_made_is_refused",
        "flare/test_guard.py::test_a_jobs_name_is_never_a_path",
        "flare/test_site.py::test_rules_of_whoever_made_the_kit_are_gone",
    ),
    "kit_tests.py, an approval that came along": (
        "client/test_decisions.py::test_only_this_owner_can_approve",
        "client/test_decisions.py::test_decision_that_was_changed_is_none",
        "client/test_owner_folder.py::test_another_user_learns_and_changes_nothing",
    ),
    "kit_tests.py, a link out of the folder": (
        "client/test_owner_folder.py::test_planted_files_are_refused_not_followed",
        "client/test_owner_folder.py::test_facts_in_the_log_are_short_and_plain",
    ),
    # 3: a process on the owner's machine speaks as the coordinator
    "local.py, local_attacker.py, local_attacker2.py": (
        "processes/test_federation.py::test_an_agent_listens_nowhere_starts_nothing_and_has_imported_no_flare",
        "flare/test_site.py::test_flares_processes_speak_through_files_in_a_folder_of_the_owners",
        "flare/test_processes.py::test_a_jobs_own_code_never_arrives_at_an_owner_and_no_process_listens",
    ),
    "pose.py, pose_attacker.py": (
        "processes/test_federation.py::test_an_agent_listens_nowhere_starts_nothing_and_has_imported_no_flare",
        "grpc/test_hostile_coordinator.py::test_nobody_else_can_pose_as_the_coordinator",
        "test_signed_calls.py::test_nobody_else_can_ask_an_owner",
        "flare/test_guard.py::test_a_jobs_process_gets_a_listed_environment_and_nothing_of_where_it_is",
    ),
    "tls.py": (
        "grpc/test_takeovers.py::test_no_key_of_the_federation_but_the_coordinators_passes_for_its_own",
        "grpc/test_takeovers.py::test_the_address_that_an_agent_dials_needs_the_pinned_key_whatever_it_is_called",
    ),
    # 4: an approval for something else
    "misc3.py, an approval for another data set": (
        "client/test_approval.py::test_approval_is_for_one_policy_data_set_ledger_coordinator_and_card",
        "client/test_approval.py::test_approval_is_used_up_by_the_run_it_was_for",
        "client/test_approval.py::test_a_yes_is_for_one_run",
        "client/test_approval.py::test_a_yes_to_some_terms_is_no_yes_to_others",
        "client/test_decisions.py::test_approval_that_was_used_does_not_count_again_when_it_is_put_back",
    ),
    "misc3.py, proposals that fill the disk": ("client/test_decisions.py::test_whoever_asks_cannot_fill_the_disk",),
}


@pytest.mark.parametrize("script", TRIED_AGAIN)
def test_each_script_has_tests_that_try_it_again(script: str) -> None:
    for named in TRIED_AGAIN[script]:
        file, _, name = named.partition("::")
        tree = ast.parse((HERE / file).read_text())
        assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, named
