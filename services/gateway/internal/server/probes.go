package server

import (
	"net/http"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// healthz answers GET /healthz while the process is alive, with or without its dependencies.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, &apiv1.Probe{Status: "ok"})
}

// readyz answers GET /readyz: 200 if requests can be served, else 503 with the reason. Its 503 is not a refusal and
// has no error object.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	var why string
	switch {
	case s.draining.Load():
		why = "The gateway is stopping."
	case !s.deps.Gate.Configured():
		why = "The gateway waits for a sidecar_nonce."
	default:
		if err := s.deps.Ready(r.Context()); err != nil {
			why = fault.From(err).Msg
		}
	}
	if why != "" {
		return answer(w, http.StatusServiceUnavailable, &apiv1.Probe{Status: "starting", Reason: why})
	}
	return answer(w, http.StatusOK, &apiv1.Probe{Status: "ready"})
}

// versions answers GET /api/versions.
func (s *Server) versions(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, &apiv1.Versions{
		Versions: []string{"v1"}, Current: "v1", DaemonVersion: s.deps.Info.Version,
	})
}

// openAPI answers GET /api/v1/openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	text, err := s.description()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "The description of the API cannot be created.")
	}
	header(w, len(text))
	_, _ = w.Write(text) // The client may have gone.
	return nil
}
