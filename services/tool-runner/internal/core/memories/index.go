package memories

import (
	"context"
	"io"
	"strings"
	"time"

	"kaged.dev/pkg/recall"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
)

// index holds the notes of one view of a project. Its lock guards all fields except counted, which the shelf guards.
type index struct {
	key  string
	lock chan struct{}

	passages recall.Index
	notes    map[string]entry // by path
	round    int              // number of the last update
	bytes    int64

	counted int64 // size in bytes as counted by the shelf
}

// entry is a file as it was read; note is nil if the file is not a note.
type entry struct {
	note          *recall.Note
	size, changed int64
	// settled means that the file was read so long after its last change that a further change would have another time.
	settled bool
	round   int
}

// tick is longer than the clock step of file systems.
const tick = 50 * time.Millisecond

// update makes the index hold exactly these files, and returns the number of files that it could not read.
func (x *index) update(ctx context.Context, s *Shelf, files []file) (unread int, err error) {
	x.round++
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		old, ok := x.notes[f.path.Rel]
		if !ok || !old.settled || old.size != f.info.Size || old.changed != f.info.ModTime {
			x.remove(f.path.Rel)
			if old, ok = s.read(f.path); ok && old.note != nil {
				s.place(ctx, old.note)
				x.passages.Add(old.note)
				x.bytes += int64(old.note.Bytes())
			}
		}
		if ok {
			old.round = x.round
			x.notes[f.path.Rel] = old
		}
		if old.note == nil {
			unread++
		}
	}
	if len(x.notes) > len(files)-unread {
		for name, e := range x.notes {
			if e.round != x.round {
				x.remove(name)
			}
		}
	}
	return unread, nil
}

func (x *index) remove(name string) {
	if e := x.notes[name]; e.note != nil {
		x.passages.Remove(e.note)
		x.bytes -= int64(e.note.Bytes())
	}
	delete(x.notes, name)
}

// read reads a file. It reports false if that fails, and returns an entry without a note for a file that is not a note.
func (s *Shelf) read(path paths.Path) (entry, bool) {
	begun := s.now()
	f, info, err := path.OpenFile()
	if err != nil {
		return entry{}, false
	}
	defer f.Close()
	changed := info.ModTime()
	e := entry{size: info.Size(), changed: changed.UnixNano(), settled: begun.Sub(changed) > tick}
	if info.Size() > s.limits.FileBytes {
		return e, true
	}
	data, err := io.ReadAll(io.LimitReader(f, info.Size()))
	if err != nil {
		return entry{}, false
	}
	if binary, _ := text.Binary(data[:min(len(data), text.HeadSize)], s.sniff); binary {
		return e, true
	}
	content, _, ok := text.Decode(data)
	if !ok {
		content = strings.ToValidUTF8(content, "\uFFFD")
	}
	e.note = recall.Read(path.Show, content)
	return e, true
}
