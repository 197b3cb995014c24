package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"kaged.dev/pkg/client"
)

// FollowLogs yields the last stored entries and then each new one, once, also those stored while the connection was
// broken (A-LOGS-08).
func TestFollowLogs(t *testing.T) {
	t.Parallel()
	entry := func(id int) string {
		return fmt.Sprintf(`{"id":"%02d","ts":%d,"level":"warn","source":"session","message":"m%d","projectId":"p"}`,
			id, id, id)
	}
	var connections atomic.Int32
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/me":
			fmt.Fprint(w, `{}`)
		case "/api/v1/projects/p/logs": // newest first
			pages := map[int32][]int{1: {2, 1}, 2: {5, 4, 3, 2}}
			var items []string
			for _, id := range pages[connections.Load()] {
				items = append(items, entry(id))
			}
			fmt.Fprintf(w, `{"items":[%s],"next_cursor":null,"has_more":false}`, strings.Join(items, ","))
		case "/api/v1/projects/p/logs/stream":
			if r.URL.Query().Get("level") != "warn" {
				t.Errorf("asked for %s", r.URL)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": kaged\n\n")
			streams := map[int32][]int{1: {2, 3}, 2: {5, 6}}
			for _, id := range streams[connections.Add(1)] {
				fmt.Fprintf(w, "event: log\ndata: %s\n\n", entry(id))
			}
			w.(http.Flusher).Flush()
			if connections.Load() == 2 {
				<-r.Context().Done()
			}
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"code":"not_found","message":"There is no project."}}`)
		}
	}))
	t.Cleanup(daemon.Close)
	c, err := client.Open(t.Context(), daemon.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var got []string
	for e, err := range c.FollowLogs(t.Context(), "p", client.LogOptions{Level: "warn", Last: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.GetMessage()); e.GetMessage() == "m6" {
			break
		}
	}
	if fmt.Sprint(got) != "[m1 m2 m3 m4 m5 m6]" {
		t.Errorf("got %v", got)
	}
	for _, err := range c.FollowLogs(t.Context(), "unknown", client.LogOptions{}) {
		if err == nil || !strings.Contains(err.Error(), "There is no project.") {
			t.Errorf("of an unknown project: %v", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range c.FollowLogs(ended, "p", client.LogOptions{}) {
		t.Errorf("after its end: %v, %v", e, err)
	}
}
