package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"kaged.dev/pkg/rpc"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// download answers GET /api/v1/projects/{id}/download/{path...} with the bytes of a project's file. Browsers save
// them and never show them as a page of this origin. If the download breaks off, the body is shorter than its
// Content-Length.
func (s *Server) download(w http.ResponseWriter, r *http.Request) error {
	stream, err := sessionmanagerv1.NewProjectServiceClient(s.deps.SessionManager).DownloadProjectFile(r.Context(),
		&apiv1.DownloadProjectFileRequest{Id: r.PathValue("id"), Path: r.PathValue("path")})
	if err != nil {
		return rpc.FromStatus(err)
	}
	chunk, err := stream.Recv()
	if err != nil {
		return rpc.FromStatus(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(chunk.GetSize(), 10))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{
		"filename": path.Base(r.PathValue("path")),
	}))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	for err == nil {
		if _, err = w.Write(chunk.GetData()); err == nil {
			chunk, err = stream.Recv()
		}
	}
	if !errors.Is(err, io.EOF) {
		s.deps.Log.DebugContext(r.Context(), "a download ended early", "path", r.URL.Path, "error", err)
	}
	return nil
}
