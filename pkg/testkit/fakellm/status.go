package fakellm

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// errorKinds are the providers' names for error statuses.
var errorKinds = map[int]struct{ anthropic, openai, code, google string }{
	400: {"invalid_request_error", "invalid_request_error", "", "INVALID_ARGUMENT"},
	401: {"authentication_error", "invalid_request_error", "invalid_api_key", "UNAUTHENTICATED"},
	403: {"permission_error", "invalid_request_error", "insufficient_permissions", "PERMISSION_DENIED"},
	404: {"not_found_error", "invalid_request_error", "model_not_found", "NOT_FOUND"},
	413: {"request_too_large", "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"},
	429: {"rate_limit_error", "requests", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"},
	500: {"api_error", "server_error", "", "INTERNAL"},
	529: {"overloaded_error", "server_error", "", "UNAVAILABLE"},
}

// writeStatus answers with a status and the provider's error object. A message that is JSON or HTML is used as the
// whole body.
func writeStatus(w http.ResponseWriter, format Format, a Action) {
	h := w.Header()
	for k, v := range a.header {
		h[k] = v
	}
	body := []byte(a.text)
	switch {
	case strings.HasPrefix(a.text, "{"):
		h.Set("Content-Type", "application/json")
	case strings.HasPrefix(a.text, "<"):
		h.Set("Content-Type", "text/html")
	default:
		h.Set("Content-Type", "application/json")
		body = errorBody(format, a.status, a.text)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(body)
}

func errorBody(format Format, status int, message string) []byte {
	kind, ok := errorKinds[status]
	if !ok {
		kind = errorKinds[400]
		if status >= 500 {
			kind = errorKinds[500]
		}
	}
	if format == Anthropic {
		return []byte(`{"type":"error","error":{"type":` + quote(kind.anthropic) + `,"message":` + quote(message) +
			`},"request_id":"req_fake01"}`)
	}
	if format == Google {
		return []byte(googleError(status, kind.google, message))
	}
	code := "null"
	if kind.code != "" {
		code = quote(kind.code)
	}
	return []byte(
		`{"error":{"message":` + quote(message) + `,"type":` + quote(kind.openai) + `,"param":null,"code":` + code + `}}`,
	)
}

// quote returns s as JSON, without the HTML escapes, which providers do not use.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
