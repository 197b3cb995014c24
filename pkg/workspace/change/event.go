package change

import "path/filepath"

// Event is one change of one file.
type Event struct {
	// Seq numbers the events of a writer from 1, without gaps.
	Seq uint64
	// Root is the root that the file is below, Path the file; both are absolute and without links.
	Root, Path string
	Kind       Kind
	// From is where a moved file was, absolute; "" for other kinds.
	From string
}

// Kind says how a file was changed.
type Kind string

// The kinds. A file that is moved and edited is two events.
const (
	Created Kind = "created"
	Changed Kind = "changed"
	Removed Kind = "removed"
	Moved   Kind = "moved"
)

// Observer is told of the files that a set of changes has changed, in the order of Seq and from one goroutine at a
// time, after the set has succeeded and while the caller still holds its paths. A set that failed and was taken back is
// no event; a file that could not be taken back is reported as changed. An observer returns soon and keeps no call
// waiting. Folders that are made for new files are not reported.
type Observer func([]Event)

// events returns the events of a set that has ended.
func (b *batch) events(done bool) []Event {
	if !done {
		var events []Event
		for _, s := range b.left {
			events = append(events, eventOf(s, Changed))
		}
		return events
	}
	kinds := map[kind]Kind{create: Created, replace: Changed, overwrite: Changed, remove: Removed, move: Moved}
	events := make([]Event, len(b.steps))
	for i, s := range b.steps {
		events[i] = eventOf(s, kinds[s.kind])
		if s.kind == move {
			events[i].From, events[i].Path = events[i].Path, filepath.Join(
				s.toFolder.key.root.Path(),
				s.toFolder.key.rel,
				s.toName,
			)
		}
	}
	return events
}

func eventOf(s *step, kind Kind) Event {
	root := s.folder.key.root.Path()
	return Event{Root: root, Path: filepath.Join(root, s.folder.key.rel, s.name), Kind: kind}
}
