"""Where agents work, if not in this process as one."""
