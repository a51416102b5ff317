"""The TypeScript declarations of the client for Node.js, beside what its modules export."""

import json
import re
import subprocess
from typing import Any

from testkit.repository.tree import ROOT
from testkit.workers.client_drivers import NODE

CLIENT = ROOT / "clients" / "node"
READ = """
const { Item } = require('./item')
const exported = require('.')
const members = (value) => Object.getOwnPropertyNames(value.prototype ?? {}).filter((name) => name !== 'constructor')
let options
try { new exported.NewItem('a', { unknown: 1 }) } catch (error) { options = error.message }
const names = Object.keys(exported)
console.log(JSON.stringify({ names, options, item: members(Item), worker: [...members(exported.Worker), 'draining'] }))
"""


def test_the_types_of_the_client_for_node_name_what_it_has() -> None:
    text = (CLIENT / "index.d.ts").read_text()
    declared = {
        name: set(re.findall(r"^  (?:readonly )?(\w+)\??[:(]", body, re.MULTILINE)) - {"constructor"}
        for name, body in re.findall(
            r"^export (?:class|interface) (\w+)[^{]*\{$(.*?)^\}", text, re.MULTILINE | re.DOTALL
        )
    }
    read = subprocess.run([NODE, "-e", READ], cwd=CLIENT, capture_output=True, text=True, check=True)
    real: dict[str, Any] = json.loads(read.stdout)
    assert sorted(re.findall(r"^export (?:class|function) (\w+)", text, re.MULTILINE)) == sorted(
        real["names"]
    )
    assert declared["Item"] == {*real["item"], "token", "outcome"}
    assert declared["Worker"] <= set(real["worker"])
    options = real["options"].rpartition("its options are ")[2].split(", ")
    assert sorted(declared["NewItemOptions"]) == sorted(options)
