package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/services/gateway/internal/core/logtail"
)

// An idle stream sends comments: a log's stream ": keepalive" every 30 s, a session's stream ": alive" every 15 s
// (A-LOGS-05).
func TestIdleStreamsSayThatTheyLive(t *testing.T) {
	t.Parallel()
	for comment, relay := range map[string]func(context.Context, *Server, *events){
		": keepalive\n\n": func(ctx context.Context, s *Server, e *events) {
			reader := logtail.NewHub().Read("ada", "music", logtail.Filter{Level: slog.LevelDebug})
			defer reader.Close()
			s.relayLogs(ctx, reader, e)
		},
		": alive\n\n": func(ctx context.Context, s *Server, e *events) {
			w := &wire{}
			e.watch, e.stored, e.at = w, w.read, []*place{{name: "output", unknown: true}}
			s.relay(ctx, e, nil)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context()) // the client leaves; a deadline would be the stream's maximum age
			defer time.AfterFunc(65*time.Second, cancel).Stop()
			answer := httptest.NewRecorder()
			e := &events{w: answer, control: http.NewResponseController(answer)}
			relay(ctx, &Server{stopping: make(chan struct{})}, e)
			want := 2
			if comment == ": alive\n\n" {
				want = 4
			}
			if got := answer.Body.String(); strings.Count(got, comment) != want || len(got) != want*len(comment) {
				t.Errorf("got %q in 65 s, want %q %d times", got, comment, want)
			}
		})
	}
}
