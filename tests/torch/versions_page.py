SCHEMA = "slipstream-versions-1"
KEYS = {"pytorch": ("pytorch", "python", "free_threaded"), "python": ("implementation", "python", "free_threaded", "debug"), "cuda": ("release",)}
def merged(kept, rows, keys):
    names = {tuple(row[key] for key in keys) for row in rows}
    return [row for row in kept if tuple(row[key] for key in keys) not in names] + rows
