package wire

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kaged.dev/pkg/clip"
)

const (
	// statusOverloaded is Anthropic's status for an overloaded server.
	statusOverloaded = 529
	// maxSentence is the maximum length of a provider's passed-on sentence, in characters.
	maxSentence = 500
	// maxRetryAfter is the maximum passed-on wait.
	maxRetryAfter = 24 * time.Hour
)

// describe finds the kind, the sentence and the wait in the body of a refusal.
func describe(body []byte) EventError {
	if e := bodyError(body); e != nil {
		return *e
	}
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "<") || strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		text = ""
	}
	return EventError{Message: text}
}

// bodyError parses the error objects of known providers and servers: {"error":{"message","type","code"}},
// {"error":"..."}, {"message":...}, {"detail":...}, and a list of one of them. It returns nil for other bodies.
func bodyError(body []byte) *EventError {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var top struct {
		Error   json.RawMessage `json:"error"`
		Message any             `json:"message"`
		Detail  any             `json:"detail"`
		Type    any             `json:"type"`
		Code    any             `json:"code"`
	}
	if json.Unmarshal(body, &top) != nil {
		return nil
	}
	if len(top.Error) > 0 && string(top.Error) != "null" {
		return ErrorObject(top.Error)
	}
	for _, v := range []any{top.Message, top.Detail} {
		if s := text(v); s != "" {
			return &EventError{Kind: kinds(top.Code, top.Type), Message: s}
		}
	}
	return nil
}

// ErrorObject parses the value of "error" in a provider's JSON: an object or a string.
func ErrorObject(raw json.RawMessage) *EventError {
	var e struct {
		Message  any `json:"message"`
		Type     any `json:"type"`
		Code     any `json:"code"`
		Status   any `json:"status"`
		Metadata struct {
			Raw any `json:"raw"`
		} `json:"metadata"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(raw, &e) != nil {
		var s any
		_ = json.Unmarshal(raw, &s)
		return &EventError{Message: text(s)}
	}
	message := text(e.Message)
	if raw := text(e.Metadata.Raw); raw != "" {
		// OpenRouter puts the sentence of the underlying provider here.
		message = strings.TrimSpace(message + ": " + raw)
	}
	reason, wait := googleDetails(e.Details)
	return &EventError{Kind: kinds(e.Code, e.Type, e.Status, reason), Message: message, RetryAfter: wait}
}

// googleDetails parses the details of Google's errors: the reason of an ErrorInfo, and the wait of a RetryInfo, or, for
// an exhausted daily quota, the time until the end of the day.
func googleDetails(raw json.RawMessage) (reason string, wait time.Duration) {
	var details []struct {
		Type   string `json:"@type"`
		Reason string `json:"reason"`
		Delay  string `json:"retryDelay"`

		Violations []struct {
			Quota string `json:"quotaId"`
		} `json:"violations"`
	}
	if json.Unmarshal(raw, &details) != nil {
		return "", 0
	}
	daily := false
	for _, d := range details {
		for _, v := range d.Violations {
			daily = daily || strings.Contains(v.Quota, "PerDay")
		}
		switch {
		case strings.HasSuffix(d.Type, "google.rpc.ErrorInfo"):
			reason = d.Reason
		case strings.HasSuffix(d.Type, "google.rpc.RetryInfo"):
			if t, err := time.ParseDuration(d.Delay); err == nil && t > 0 {
				wait = min(t, maxRetryAfter)
			}
		}
	}
	if daily {
		wait = max(wait, untilGoogleDay(time.Now()))
	}
	return reason, wait
}

// kinds joins a provider's names of a failure: its code and its type.
func kinds(values ...any) string {
	var names []string
	for _, v := range values {
		if s := text(v); s != "" && len(s) < 100 {
			names = append(names, s)
		}
	}
	return strings.Join(names, " ")
}

// text returns a string or a number as text, any other JSON value compactly.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// kindStatus returns the status for a failure named inside a stream, 400 for an unknown one.
func kindStatus(kind string) int {
	for name := range strings.FieldsSeq(kind) {
		if n, err := strconv.Atoi(name); err == nil && n >= 400 && n < 600 {
			return n
		}
		if status, ok := kindStatuses[name]; ok {
			return status
		}
	}
	return http.StatusBadRequest
}

var kindStatuses = map[string]int{
	"authentication_error":     http.StatusUnauthorized,
	"invalid_api_key":          http.StatusUnauthorized,
	"permission_error":         http.StatusForbidden,
	"insufficient_permissions": http.StatusForbidden,
	"rate_limit_error":         http.StatusTooManyRequests,
	"rate_limit_exceeded":      http.StatusTooManyRequests,
	"insufficient_quota":       http.StatusTooManyRequests,
	"overloaded_error":         statusOverloaded,
	"request_too_large":        http.StatusRequestEntityTooLarge,
	"api_error":                http.StatusInternalServerError,
	"server_error":             http.StatusInternalServerError,
	"internal_error":           http.StatusInternalServerError,
	"internal_server_error":    http.StatusInternalServerError,
	"timeout_error":            http.StatusInternalServerError,
	"UNAUTHENTICATED":          http.StatusUnauthorized,
	"PERMISSION_DENIED":        http.StatusForbidden,
	"RESOURCE_EXHAUSTED":       http.StatusTooManyRequests,
	"INTERNAL":                 http.StatusInternalServerError,
	"UNAVAILABLE":              http.StatusServiceUnavailable,
	"DEADLINE_EXCEEDED":        http.StatusGatewayTimeout,
}

// secretForms match texts that must be masked even if they are not this target's key: providers repeat keys in their
// errors, at best half masked.
var secretForms = regexp.MustCompile(
	`(?i)\b(?:sk|pk|rk|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+[\w.~+/*=-]{6,}`,
)

// clean prepares a provider's sentence for display: one line, limited length, secrets masked.
func (c classifier) clean(s string) string {
	// Masking comes before cutting, so that a secret at the cut is still complete.
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = clip.Marked(s, 8*maxSentence, "")
	secrets := []string{c.target.APIKey}
	for _, v := range c.target.Headers {
		_, token, _ := strings.Cut(v, " ")
		secrets = append(secrets, v, token)
	}
	for _, secret := range secrets {
		if len(secret) >= 4 {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	s = secretForms.ReplaceAllString(s, "***")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	s = clip.MarkedRunes(s, maxSentence, "...")
	return s
}

// period ends a sentence with a full stop.
func period(s string) string {
	if s != "" && strings.ContainsRune(".!?", rune(s[len(s)-1])) {
		return s
	}
	return s + "."
}

// retryAfter reads the wait that a provider asks for, in milliseconds, from a header in any case. A time of the clock
// is compared with the provider's clock in the same answer, because the clock here may differ.
func retryAfter(h http.Header) (int64, bool) {
	var ms, other, date string
	for k, v := range h {
		if len(v) == 0 {
			continue
		}
		switch strings.ToLower(k) {
		case "retry-after-ms":
			ms = strings.TrimSpace(v[0])
		case "retry-after":
			other = strings.TrimSpace(v[0])
		case "date":
			date = strings.TrimSpace(v[0])
		}
	}
	if n, err := strconv.ParseFloat(ms, 64); err == nil && n >= 0 {
		return bounded(n), true
	}
	if n, err := strconv.ParseFloat(other, 64); err == nil && n >= 0 {
		return bounded(n * 1000), true
	}
	if at, err := http.ParseTime(other); err == nil {
		now, err := http.ParseTime(date)
		if err != nil {
			now = time.Now()
		}
		return bounded(float64(max(0, at.Sub(now).Milliseconds()))), true
	}
	return 0, false
}

func bounded(ms float64) int64 {
	return int64(min(ms, float64(maxRetryAfter.Milliseconds())))
}
