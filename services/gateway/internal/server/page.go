package server

import (
	"bytes"
	"crypto/rand"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/web"
)

//go:embed page
var files embed.FS

// pagePolicy lets a page without scripts load its style sheet only. No other page may frame it.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// consolePolicy lets the console run its own files and send requests to this gateway only. Text cannot become
// markup or script: the only policy of trusted types is the framework's. The nonce allows the editor's style sheet.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-NONCE'; " +
	"img-src 'self'; " +
	"connect-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types svelte-trusted-html"

var spent = template.Must(template.ParseFS(files, "page/spent.html"))

// consolePages are the paths of the console's views. All of them serve the same page.
var consolePages = []string{
	"/{$}", "/sessions/{id}", "/projects", "/projects/{id}", "/processes", "/audit",
	"/settings",
}

// page answers the paths of the console. The page contains no data; it reads them from the API.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) error {
	nonce := rand.Text()
	body, err := s.console.Page(web.Shell{AuthMode: string(s.deps.Gate.Mode), Nonce: nonce})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", strings.Replace(consolePolicy, "NONCE", nonce, 1))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	asset(w, http.StatusOK, "text/html; charset=utf-8", body)
	return nil
}

// static answers GET /static/{file} with a file of the console. File names do not change with the content, so
// browsers ask each time whether the file has changed.
func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	f, ok := s.console.File(r.PathValue("file"))
	if !ok {
		return fault.New(fault.NotFound, "The console has no file %s.", shown(r.PathValue("file")))
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("ETag", f.Tag)
	if strings.Contains(r.Header.Get("If-None-Match"), f.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := f.Plain
	if f.Packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.Packed
	}
	asset(w, http.StatusOK, f.Type, body)
	return nil
}

// spentLaunch answers a browser with an invalid launch URL. Its page has the command for a new one.
func spentLaunch(w http.ResponseWriter) error {
	return write(w, http.StatusUnauthorized, spent, nil)
}

// write answers with an HTML template and its data.
func write(w http.ResponseWriter, status int, page *template.Template, data any) error {
	var body bytes.Buffer
	if err := page.Execute(&body, data); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	asset(w, status, "text/html; charset=utf-8", body.Bytes())
	return nil
}

// style answers GET /static/page.css, the style sheet of pages without scripts.
func (s *Server) style(w http.ResponseWriter, _ *http.Request) error {
	body, err := files.ReadFile("page/page.css")
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	asset(w, http.StatusOK, "text/css; charset=utf-8", body)
	return nil
}

// asset writes a file. If no content security policy is set, it sets [pagePolicy].
func asset(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if h.Get("Content-Security-Policy") == "" {
		h.Set("Content-Security-Policy", pagePolicy)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // The client may have gone.
}
