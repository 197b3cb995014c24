package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/wirejson"
)

// dslSchema answers GET /api/v1/dsl/schema with the JSON Schema of the project file. It needs no sign-in, because
// editors fetch it. The default version is the latest. It fails with validation_failed for a version that is not a
// number, and with not_found for an unknown version.
func (s *Server) dslSchema(w http.ResponseWriter, r *http.Request) error {
	version := dsl.Version
	if given := r.URL.Query().Get("version"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil {
			return wirejson.Invalid("version", "version must be a whole number.")
		}
		version = n
	}
	schema, err := dsl.Schema(version)
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		Version int             `json:"version"`
		Schema  json.RawMessage `json:"schema"`
	}{version, schema})
	if err != nil {
		return err
	}
	header(w, len(body))
	_, _ = w.Write(body) // The client may have gone.
	return nil
}
