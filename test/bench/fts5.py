"""Answers questions about notes by SQLite's FTS5. argv: the project's folder. stdin: a JSON list of questions.
stdout: for each tokenizer the five best paths for each question, and how many milliseconds each took."""
import json, os, re, sqlite3, sys, time

folder, questions, answers = sys.argv[1], json.load(sys.stdin), {}
for tokenizer in ("unicode61", "porter", "trigram"):
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE notes USING fts5(path UNINDEXED, title, body, tokenize='{tokenizer}')")
    for top, _, names in os.walk(os.path.join(folder, "memory")):
        for name in names:
            path = os.path.join(top, name)
            title, _, body = open(path, encoding="utf-8").read().partition("\n")
            db.execute("INSERT INTO notes VALUES (?, ?, ?)", ("./" + os.path.relpath(path, folder), title, body))
    db.commit()
    found, took = [], []
    for question in questions:
        begun = time.perf_counter()
        words = " OR ".join('"%s"' % word for word in re.findall(r"\w+", question) if tokenizer != "trigram" or len(word) > 2)
        rows = db.execute("SELECT path FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT 5", (words,)).fetchall()
        took.append((time.perf_counter() - begun) * 1000)
        found.append([row[0] for row in rows])
    answers[tokenizer] = {"found": found, "ms": took}
json.dump({"version": sqlite3.sqlite_version, "answers": answers}, sys.stdout)
