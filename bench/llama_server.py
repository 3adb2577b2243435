"""llama.cpp's server as a peer of other benchmarks: started on a free port, waited for. Only Python's own library is needed."""
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


def start_llama(program, *flags):
    """The process and its address; none where it ends before it is ready, with the last of what it says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tempfile.TemporaryFile()  # a pipe that nobody reads would stop it
    process = subprocess.Popen([str(program), *map(str, flags), "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    while process.poll() is None:
        try:
            urllib.request.urlopen(url + "/health", timeout=5).read()
            return process, url, ""
        except OSError:  # not there, or 503: it loads
            time.sleep(0.1)
    log.seek(0)
    return None, None, log.read().decode(errors="replace")[-600:]
