"""The language server with a stand-in for what fetches models.

usage: pulling_server.py FOLDER     the stand-in is at 42% until FOLDER has the file `go`, then fetches
                                    any model but `broken`
"""

import sys

from composer_lsp.server.factory import create_server
from composer_lsp.server.stdio import take_streams

FETCH = """
import json, pathlib, sys, time
folder, model = pathlib.Path(sys.argv[1]), sys.argv[2]
def tell(event, **values): print(json.dumps({"event": event, **values}), flush=True)
tell("progress", done_bytes=42, total_bytes=100)
while not (folder / "go").exists(): time.sleep(0.02)
if model == "broken": tell("error", message="the disk is full: 491 MB are needed")
else: tell("done", path=f"/models/{model}.gguf")
"""

streams = take_streams()
create_server(pull_command=(sys.executable, "-c", FETCH, sys.argv[1])).run(*streams)
