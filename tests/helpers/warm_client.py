"""Asks the server of `warm.py` for a command and ends as it ends. Imports little: it is started hundreds of times."""

import json
import os
import signal
import socket
import sys

_, address, *arguments = sys.argv
server = socket.socket(socket.AF_UNIX)
server.connect(address)
request = json.dumps({"arguments": arguments, "cwd": os.getcwd(), "environment": dict(os.environ)}).encode()
socket.send_fds(server, [len(request).to_bytes(8, "little")], [0, 1, 2])
server.sendall(request)
process = int.from_bytes(server.recv(4), "little")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, _: os.kill(process, number))
answer = server.recv(4)
if not answer:
    sys.exit("the server of warm commands is gone")
status = os.waitstatus_to_exitcode(int.from_bytes(answer, "little"))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
