"""Data folders: records that stay in their files, and how such folders are read and written."""
