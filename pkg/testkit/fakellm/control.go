package fakellm

import (
	"encoding/json"
	"io"
	"net/http"

	"kaged.dev/pkg/clip"
)

// Timing is the entry of a request on the control page. Times are nanoseconds since the server was created.
type Timing struct {
	N            int    `json:"n"`
	Format       Format `json:"format"`
	Model        string `json:"model"`
	Conversation string `json:"conversation"`
	Turns        int    `json:"turns"`
	Bytes        int    `json:"bytes"`
	Arrived      int64  `json:"arrived_ns"`
	Finished     int64  `json:"finished_ns"`
}

// serveControl lets another process control a server: GET /_fakellm/requests lists [Timing]s, POST /_fakellm/script
// replaces the scripts by those of a text archive and drops the requests, POST /_fakellm/gate/NAME opens a gate.
func (s *Server) serveControl(w http.ResponseWriter, hr *http.Request) {
	switch path := hr.URL.Path; {
	case hr.Method == http.MethodGet && path == "/_fakellm/requests":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.timings())
	case hr.Method == http.MethodPost && path == "/_fakellm/script":
		text, err := io.ReadAll(io.LimitReader(hr.Body, 16<<20))
		if err == nil {
			s.reset()
			err = s.ParseScript(string(text))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	case hr.Method == http.MethodPost && len(path) > len("/_fakellm/gate/"):
		s.Gate(path[len("/_fakellm/gate/"):]).Open()
	default:
		http.NotFound(w, hr)
	}
}

func (s *Server) timings() []Timing {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Timing, len(s.requests))
	for i, r := range s.requests {
		out[i] = Timing{
			N: r.N, Format: r.Format, Model: r.Model, Conversation: clip.Marked(r.Conversation(), 200, "..."), Turns: r.Turns(),
			Bytes: len(r.Body), Arrived: r.Arrived.Sub(s.started).Nanoseconds(),
		}
		if !r.Finished.IsZero() {
			out[i].Finished = r.Finished.Sub(s.started).Nanoseconds()
		}
	}
	return out
}

// reset drops scripts and requests.
func (s *Server) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.common, s.each, s.markers, s.handle = script{}, nil, nil, nil
	s.models, s.gates = map[string]*script{}, map[string]*Gate{}
	s.requests, s.count = nil, 0
}
