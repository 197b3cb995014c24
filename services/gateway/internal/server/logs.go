package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/logtail"
)

// logsAlive is the interval of comments in a stream of log entries.
const logsAlive = 30 * time.Second

// followLogs answers GET /api/v1/projects/{id}/logs/stream with new entries of a project's log as server-sent
// events. Older entries are in the pages of GET /api/v1/projects/{id}/logs. The stream ends if the reader misses
// entries; the client then connects again and reads a page.
func (s *Server) followLogs(w http.ResponseWriter, r *http.Request) error {
	ctx, id, query := r.Context(), r.PathValue("id"), r.URL.Query()
	for _, name := range []string{"level", "source"} {
		if len(query[name]) > 1 {
			return wirejson.Invalid(name, "%s is given more than once.", name)
		}
	}
	x := exchangeOf(r)
	filter := logtail.Filter{Level: slog.LevelDebug, Source: query.Get("source")}
	if level := query.Get("level"); level != "" {
		_ = filter.Level.UnmarshalText([]byte(level)) // session-manager refuses unknown levels
	}
	if err := s.deps.Noticing(); err != nil {
		return err
	}
	// The reader exists before the answer begins, so it receives every later entry.
	reader := s.deps.Logs.Read(x.identity.UserID, id, filter)
	defer reader.Close()
	page := &apiv1.ListProjectLogsRequest{Id: id, Level: query.Get("level"), Source: query.Get("source"), Limit: 1}
	_, err := sessionmanagerv1.NewLogServiceClient(s.deps.SessionManager).ListProjectLogs(ctx, page)
	if err != nil {
		return rpc.FromStatus(err)
	}
	ctx, cancel := s.lasting(ctx)
	defer cancel()
	defer s.signedOut(r)(cancel)()
	in := s.streaming.enter(x.identity.UserID, cancel)
	defer s.streaming.leave(in)
	defer x.release()()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e := &events{w: w, control: http.NewResponseController(w)}
	if e.comment("kaged") == nil {
		s.relayLogs(ctx, reader, e)
	}
	return nil
}

// relayLogs sends entries until the client leaves, is signed out or misses entries, or the gateway stops.
func (s *Server) relayLogs(ctx context.Context, reader *logtail.Reader, e *events) {
	alive := time.NewTicker(logsAlive)
	defer alive.Stop()
	for {
		select {
		case <-reader.Ready():
			entries, ok := reader.Take()
			if !ok || e.entries(entries) != nil {
				return
			}
		case <-alive.C:
			if e.comment("keepalive") != nil {
				return
			}
		case <-s.stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// entries sends log entries, each as one event.
func (e *events) entries(list [][]byte) error {
	var out bytes.Buffer
	for _, entry := range list {
		fmt.Fprintf(&out, "event: log\ndata: %s\n\n", entry)
	}
	if out.Len() == 0 {
		return nil
	}
	return e.write(out.Bytes())
}
