package processes

import (
	"context"
	"maps"
	"slices"
)

// Late returns the processes with an unreported end, of all sessions that skip does not exclude, oldest session first.
// An end stays unreported until [Table.Told], also after a restart. Sessions whose host is unavailable are left out;
// the error is that of the first.
func (t *Table) Late(ctx context.Context, skip func(session string) bool) ([]Process, error) {
	t.pendingMu.Lock()
	ids := slices.Sorted(maps.Keys(t.pending))
	t.pendingMu.Unlock()
	var news []Process
	var failed error
	for _, id := range ids {
		if skip(id) {
			continue
		}
		found, err := t.news(ctx, id)
		if err != nil && failed == nil {
			failed = err
		}
		news = append(news, found...)
	}
	return news, failed
}

// news returns the processes of a session with an unreported end.
func (t *Table) news(ctx context.Context, id string) ([]Process, error) {
	s := t.open(id)
	defer t.close(s)
	err := t.refresh(ctx, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	var news []Process
	for _, e := range s.list {
		if e.News {
			news = append(news, e.Process)
		}
	}
	return news, err
}

// Told marks the end of a process as reported. An unknown process is ignored.
func (t *Table) Told(session, id string) {
	s := t.open(session)
	defer t.close(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.list {
		if e.ID == id && e.News {
			e.News = false
			t.save(s)
		}
	}
}

// mark stores whether a session has processes for Late.
func (t *Table) mark(session string, pending bool) {
	t.pendingMu.Lock()
	defer t.pendingMu.Unlock()
	if pending {
		t.pending[session] = true
		return
	}
	delete(t.pending, session)
}

// hasNews reports whether a process runs or has an unreported end.
func hasNews(list []*Process) bool {
	return slices.ContainsFunc(list, func(p *Process) bool { return p.Status == Running || p.News })
}
