package live

import (
	"context"

	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// Show shows a frame to the sessions of a project that are live here, which all sessions with a socket are. It
// never waits: a session with a buffer that is full twice over goes without.
func (g *Registry) Show(owner, project string, p frames.Payload) {
	f, err := frames.Render(g.Runs.Renderer, nil, p)
	if err != nil {
		g.Log.Error("a frame was not shown", "type", p.Kind().Name, "error", err)
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range g.live() {
		if r := s.Record(); r.Owner == owner && r.ProjectID == project {
			_ = s.frames.Emit(now, f) // fails where another process shows it
		}
	}
}
