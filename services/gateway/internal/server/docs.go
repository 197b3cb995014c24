package server

import (
	"net/http"

	"github.com/swaggest/swgui"
	ui "github.com/swaggest/swgui/v5emb"
)

// docsPage serves the description of the API as a page. Its files are embedded.
var docsPage = ui.NewWithConfig(swgui.Config{HideCurl: false})("kaged API", "/api/v1/openapi.json", "/docs/api/")

// docsPolicy lets the page run its own scripts, inline ones included, and send requests to this gateway only. No
// other page may frame it, because its forms send requests as the operator.
const docsPolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docs answers GET /docs/api and the files of that page.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/docs/api" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", docsPolicy)
	}
	docsPage.ServeHTTP(w, r)
	return nil
}
