"""Emulation of OpenAI's Files and Batch API, for tests that stop the client between any two steps.

Based on "Batch" and "Files" in the OpenAI API reference (OpenAPI document 2.3.0, retrieved November
2026): upload with the purpose batch, create, retrieve, list, and the contents of output and error files.
A batch is complete at its second retrieval. Each request in a batch is answered and counted once, since
it would be billed.

`script` maps a substring of a prompt to its outcomes in the first, second … batch: a status, "expired"
or "missing" (no output line); later batches answer it. `strike` is called with the number of each HTTP
request, "before" and "after" it is processed; if it returns True before, the request is not processed.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiohttp import web
from tests.support.fault_server import answer_to, pieces_of


class BatchApp:
    """Request handlers, with the stored files and batches."""

    def __init__(
        self,
        script: dict[str, list[str]] | None = None,
        *,
        ends: dict[int, dict[str, Any]] | None = None,
        strike: Callable[[int, str], Any] | None = None,
    ) -> None:
        self.script = dict(script or {})
        self.ends = dict(ends or {})
        """Final status of the first, second … batch, instead of completed."""
        self.strike = strike
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.paid: Counter[str] = Counter()
        """Number of times each prompt was answered in a batch."""
        self.log: list[str] = []
        self.faults: dict[str, list[int]] = {}
        """Statuses of the next requests by step; 0 processes the request but breaks the response."""

    def web_app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28, middlewares=[self._watched])
        app.add_routes(
            [
                web.post("/v1/files", self.upload),
                web.get("/v1/files/{id}/content", self.content),
                web.post("/v1/batches", self.create),
                web.get("/v1/batches", self.list_),
                web.get("/v1/batches/{id}", self.retrieve),
            ]
        )
        return app

    @web.middleware
    async def _watched(self, request: web.Request, handler: Any) -> web.StreamResponse:
        step = f"{request.method} {re.sub(r'/(file|batch)-[0-9]+', '/ID', request.path)}"
        self.log.append(step)
        number = len(self.log)
        if self.strike is not None and self.strike(number, "before"):
            return web.Response(status=503)
        faults = self.faults.get(step, [])
        status = faults.pop(0) if faults else None
        if status:
            return web.json_response({"error": {"message": "injected"}}, status=status)
        response: web.StreamResponse = await handler(request)
        if status == 0 and request.transport is not None:
            request.transport.abort()
        if self.strike is not None:
            self.strike(number, "after")
        return response

    def keep(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["purpose"] != "batch":
            return web.json_response({"error": {"message": "purpose"}}, status=400)
        file: Any = form["file"]
        name = self.keep(file.file.read())
        return web.json_response({"id": name, "object": "file", "filename": file.filename})

    async def content(self, request: web.Request) -> web.Response:
        found = self.files.get(request.match_info["id"])
        if found is None:
            return web.json_response({"error": {"message": "No such File"}}, status=404)
        return web.Response(body=found, content_type="application/octet-stream")

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert set(body) == {"input_file_id", "endpoint", "completion_window"}
        assert body["completion_window"] == "24h"
        name = f"batch-{len(self.batches) + 1}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert {line["url"] for line in lines} == {body["endpoint"]}
        assert len({line["custom_id"] for line in lines}) == len(lines) <= 50_000
        batch = {"id": name, "object": "batch", **body, "status": "validating"}
        batch |= {"output_file_id": None, "error_file_id": None, "errors": None}
        self.batches[name] = batch
        return web.json_response(batch)

    async def list_(self, request: web.Request) -> web.Response:
        names = list(reversed(self.batches))
        after = request.query.get("after")
        start = names.index(after) + 1 if after else 0
        page = names[start : start + 2]  # smaller than asked for, as a server may
        data = [self.batches[name] for name in page]
        more = start + 2 < len(names)
        return web.json_response({"object": "list", "data": data, "has_more": more})

    async def retrieve(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "No batch found"}}, status=404)
        if batch["status"] == "validating":
            batch["status"] = "in_progress"
        elif batch["status"] == "in_progress":
            self.finish(batch)
        return web.json_response(batch)

    def finish(self, batch: dict[str, Any]) -> None:
        number = list(self.batches).index(batch["id"]) + 1
        batch["status"] = "completed"
        if number in self.ends:
            batch |= self.ends[number]
            if batch["status"] == "failed":
                return
        outputs, errors = [], []
        for line in self.files[batch["input_file_id"]].splitlines():
            asked = json.loads(line)
            prompt = asked["body"]["messages"][-1]["content"]
            faults = next((told for part, told in self.script.items() if part in prompt), [])
            fault = faults.pop(0) if faults else ""
            told = {"id": "r-1", "custom_id": asked["custom_id"], "response": None, "error": None}
            if fault == "missing" or (batch["status"] == "cancelled" and not fault):
                continue
            if fault == "expired":
                told["error"] = {
                    "code": "batch_expired",
                    "message": "could not be executed in time",
                }
                errors.append(told)
                continue
            status = int(fault or 200)
            if status == 200:
                text = answer_to(prompt)
                message = {"role": "assistant", "content": text}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": len(pieces_of(prompt)), "completion_tokens": 1}
                body: dict[str, Any] = {"choices": [choice], "usage": usage}
                self.paid[prompt] += 1
            else:
                body = {"error": {"message": f"injected {status}", "type": "injected"}}
            told["response"] = {"status_code": status, "request_id": "r", "body": body}
            (outputs if status == 200 else errors).append(told)
        for name, lines in (("output_file_id", outputs), ("error_file_id", errors)):
            if lines:
                batch[name] = self.keep(
                    "".join(json.dumps(one) + "\n" for one in reversed(lines)).encode()
                )
