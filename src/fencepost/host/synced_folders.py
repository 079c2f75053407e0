"""Folders that a service copies to other machines: files in them are not where they seem to be. Quick to import."""

import os

_SYNCED_NAMES = {
    "Dropbox": "Dropbox",
    "com~apple~CloudDocs": "iCloud Drive",
    "Mobile Documents": "iCloud Drive",
    "iCloud Drive": "iCloud Drive",
    "iCloudDrive": "iCloud Drive",
    "OneDrive": "OneDrive",
    "Google Drive": "Google Drive",
    "GoogleDrive": "Google Drive",
}
_SYNCED_STARTS = tuple(_SYNCED_NAMES)
_SYNCED_MARKERS = {".dropbox": "Dropbox", ".stfolder": "Syncthing"}


def is_synced_folder(path: str) -> str | None:
    """Return which service copies this folder to other machines behind our back, or None."""
    folder = nearest_existing(path)
    while True:
        service = _service_of(folder)
        parent = os.path.dirname(folder)
        if service is not None or parent == folder:
            return service
        folder = parent


def nearest_existing(path: str) -> str:
    """Return the real path of what exists of it."""
    real = os.path.realpath(os.path.expanduser(path))
    while not os.path.lexists(real) and real != os.path.dirname(real):
        real = os.path.dirname(real)
    return real


def _service_of(folder: str) -> str | None:
    name = os.path.basename(folder)
    for known, service in _SYNCED_NAMES.items() if name.startswith(_SYNCED_STARTS) else ():
        # Services add an account to the name, as in: OneDrive - Company
        if name == known or name.startswith((f"{known} ", f"{known}-")):
            return service
    for marker, service in _SYNCED_MARKERS.items():
        if os.path.lexists(f"{folder}/{marker}") and not _is_home(folder):
            return service
    return None


def _is_home(folder: str) -> bool:
    """Recognise the home folder, where .dropbox holds the client's settings and marks nothing."""
    return folder == os.path.realpath(os.path.expanduser("~"))
