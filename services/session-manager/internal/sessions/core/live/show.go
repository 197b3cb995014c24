package live

import (
	"context"

	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// Show emits a frame to the sessions of a project that are live here; a session with a socket is always live in
// some process. It never waits: a session whose buffer is full twice over drops the frame.
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
			_ = s.frames.Emit(now, f) // fails if the session has moved; its new process shows the frame
		}
	}
}
