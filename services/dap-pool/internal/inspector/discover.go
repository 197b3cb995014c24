package inspector

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// listBytes is the maximum size of the list of programs.
const listBytes = 256 << 10

// Discover requests the path of a runtime's inspector over conn, and closes conn. The caller must close conn when ctx
// ends.
func (d *Dialect) Discover(ctx context.Context, conn io.ReadWriteCloser) (string, error) {
	defer conn.Close()
	if d.path != "" {
		return d.path, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/json/list", http.NoBody)
	if err != nil {
		return "", err
	}
	if err := request.Write(conn); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, listBytes)), request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var targets []struct {
		Address string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&targets); err != nil {
		return "", err
	}
	for _, t := range targets {
		if u, err := url.Parse(t.Address); err == nil && u.Path != "" {
			return u.EscapedPath(), nil
		}
	}
	return "", errors.New("the runtime lists no program")
}
