package server

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

//go:embed page
var files embed.FS

var index = template.Must(template.ParseFS(files, "page/index.html"))

// pagePolicy lets the page load its style and nothing else, run no script, and be framed by nobody.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var spent = template.Must(template.ParseFS(files, "page/spent.html"))

// home is what the page at / shows. Without an operator it shows nothing of the projects.
type home struct {
	Info
	Sandbox  string
	Loopback bool
	// Operator is who is signed in, empty for nobody.
	Operator string
	// Projects are the operator's, the first page of them; Unavailable says that they cannot be read at the moment.
	Projects    []homeProject
	More        bool
	Unavailable bool
}

// homeProject is a project with its newest sessions.
type homeProject struct {
	*apiv1.ProjectSummary
	Sessions []homeSession
}

// homeSession is a session in a line.
type homeSession struct{ ID, State, Name string }

// The home page shows so many projects, and so many sessions of each.
const (
	homeProjects = 20
	homeSessions = 5
)

// page answers GET /: what this is, its mode and version, who is signed in, and their projects and sessions as links.
func (s *Server) page(w http.ResponseWriter, r *http.Request) error {
	h := home{Info: s.deps.Info, Sandbox: s.deps.Info.sandbox(), Loopback: s.deps.Info.AuthMode == access.Loopback}
	if id, _, err := s.identify(r); err == nil {
		h.Operator = id.UserID
		exchangeOf(r).identity = id
		if err := s.note(r); err != nil {
			return err
		}
		ctx := ident.WithCaller(r.Context(), s.caller(r, id))
		if h.Projects, h.More, err = s.projects(ctx); err != nil {
			h.Unavailable = true
			s.deps.Log.DebugContext(r.Context(), "the home page has no projects", "error", err)
		}
	}
	return write(w, http.StatusOK, index, h)
}

// projects returns what the home page shows of the caller's projects.
func (s *Server) projects(ctx context.Context) (list []homeProject, more bool, err error) {
	found, err := sessionmanagerv1.NewProjectServiceClient(s.deps.SessionManager).
		ListProjects(ctx, &apiv1.ListProjectsRequest{Limit: homeProjects})
	if err != nil {
		return nil, false, err
	}
	sessions := sessionmanagerv1.NewSessionServiceClient(s.deps.SessionManager)
	for _, p := range found.GetItems() {
		newest, err := sessions.ListSessions(ctx, &apiv1.ListSessionsRequest{ProjectId: p.GetId(), Limit: homeSessions})
		if err != nil {
			return nil, false, err
		}
		shown := homeProject{ProjectSummary: p}
		for _, one := range newest.GetItems() {
			state := strings.ToLower(strings.TrimPrefix(one.GetState().String(), "SESSION_STATE_"))
			shown.Sessions = append(shown.Sessions, homeSession{one.GetId(), state, one.GetName()})
		}
		list = append(list, shown)
	}
	return list, found.GetHasMore(), nil
}

// spentLaunch answers a browser whose launch URL is not valid any more: what to type for another.
func spentLaunch(w http.ResponseWriter) error {
	return write(w, http.StatusUnauthorized, spent, nil)
}

// write answers with a page that shows its data.
func write(w http.ResponseWriter, status int, page *template.Template, data any) error {
	var body bytes.Buffer
	if err := page.Execute(&body, data); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	asset(w, status, "text/html; charset=utf-8", body.Bytes())
	return nil
}

// style answers GET /static/page.css.
func (s *Server) style(w http.ResponseWriter, _ *http.Request) error {
	body, err := files.ReadFile("page/page.css")
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	asset(w, http.StatusOK, "text/css; charset=utf-8", body)
	return nil
}

func asset(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", pagePolicy)
	w.WriteHeader(status)
	_, _ = w.Write(body) // The client may have gone.
}
