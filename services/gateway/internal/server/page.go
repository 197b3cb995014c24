package server

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strconv"

	"kaged.dev/services/gateway/internal/core/access"
)

//go:embed page
var files embed.FS

var index = template.Must(template.ParseFS(files, "page/index.html"))

// pagePolicy lets the page load its style and nothing else, run no script, and be framed by nobody.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page answers GET / until the console does: what this is, its mode and version, and where to go.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) error {
	var body bytes.Buffer
	err := index.Execute(&body, struct {
		Info
		Sandbox  string
		Loopback bool
	}{s.deps.Info, s.deps.Info.sandbox(), s.deps.Info.AuthMode == access.Loopback})
	if err != nil {
		return err
	}
	asset(w, "text/html; charset=utf-8", body.Bytes())
	return nil
}

// style answers GET /static/page.css.
func (s *Server) style(w http.ResponseWriter, _ *http.Request) error {
	body, err := files.ReadFile("page/page.css")
	if err != nil {
		return err
	}
	asset(w, "text/css; charset=utf-8", body)
	return nil
}

func asset(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write(body) // The client may have gone.
}
