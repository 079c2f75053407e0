"""The dashboard's own files: one style sheet, one script, one picture; nothing comes from elsewhere."""

from fastapi import APIRouter
from starlette.responses import FileResponse, Response

from fencepost.model.errors import Unknown
from fencepost.web.dashboard.pages import HERE

router = APIRouter(include_in_schema=False)
KINDS = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
KEPT = {"Cache-Control": "private, max-age=86400"}  # the address changes when the file does


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Return a file that is known by name; others do not exist."""
    if name not in KINDS:
        raise Unknown(f"there is no file {name!r}.")
    return FileResponse(HERE / "static" / name, media_type=KINDS[name], headers=KEPT)
