"""A web application that enqueues a task for each request: `uvicorn web:web`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import mail
from fastapi import FastAPI
from pydantic import BaseModel, Field


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with mail.app:  # closes its connections at the end
        yield


web = FastAPI(lifespan=lifespan)


class Signup(BaseModel):
    address: str = Field(pattern="^[!-?A-~]+@[!-?A-~]+$", max_length=100)


class Accepted(BaseModel):
    item: str
    is_new: bool


@web.post("/signups", status_code=202)
async def sign_up(signup: Signup) -> Accepted:
    """The id makes it one mail for an address, however often the form is sent (within the queue's id window)."""
    welcome = mail.send_mail.options(id=f"welcome-{signup.address}")
    stored = await welcome.enqueue_async(signup.address, "Welcome!")
    return Accepted(item=stored.id, is_new=not stored.is_duplicate)
