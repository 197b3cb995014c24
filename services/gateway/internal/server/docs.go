package server

import (
	"net/http"

	"github.com/swaggest/swgui"
	ui "github.com/swaggest/swgui/v5emb"
)

// docsPage shows the description of the API as a page. Its files are in this binary.
var docsPage = ui.NewWithConfig(swgui.Config{HideCurl: false})("kaged API", "/api/v1/openapi.json", "/docs/api/")

// docs answers GET /docs/api and the files of that page.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/docs/api" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	docsPage.ServeHTTP(w, r)
	return nil
}
