package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"kaged.dev/pkg/client"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// fake is a daemon with the answers of a test. It records the requests.
type fake struct {
	*httptest.Server
	answers map[string]string // by "METHOD /path?query"
	status  map[string]int
	asked   []string   // requests with bodies
	mu      sync.Mutex // held by the socket too
	socket  func(query string, conn *websocket.Conn)
}

func newFake() *fake {
	f := &fake{answers: map[string]string{}, status: map[string]int{}}
	f.answers["GET /api/v1/me"] = `{"csrf_token":"csrf","daemon":{"sandbox_mode":"enabled"}}`
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	if websocket.IsWebSocketUpgrade(r) {
		upgrader := websocket.Upgrader{Subprotocols: []string{"kaged.v1"}}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err == nil {
			f.mu.Lock()
			f.socket(r.URL.RawQuery, conn)
			f.mu.Unlock()
			_ = conn.Close()
		}
		return
	}
	asked := r.Method + " " + r.URL.RequestURI()
	var body strings.Builder
	_ = json.NewEncoder(&body).Encode(json.RawMessage(read(r)))
	f.asked = append(f.asked, strings.TrimSpace(asked+" "+strings.TrimSpace(body.String())))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	answer, known := f.answers[asked]
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error":{"code":"not_found","message":"There is no such thing.","details":{"x":1},"request_id":"r"}}`
	case f.status[asked] != 0:
		w.WriteHeader(f.status[asked])
	}
	fmt.Fprint(w, answer)
}

func read(r *http.Request) []byte {
	var body json.RawMessage
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return []byte(`""`)
	}
	return body
}

// open returns a client of the fake.
func (f *fake) open(t *testing.T) *client.Client {
	t.Helper()
	t.Cleanup(f.Server.Close)
	c, err := client.Open(t.Context(), f.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f.asked = nil
	return c
}
