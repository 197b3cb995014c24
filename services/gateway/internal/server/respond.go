package server

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

const jsonType = "application/json; charset=utf-8"

// handler answers a request. If it returns an error, it must not have written anything, and the error becomes the
// answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// answered turns a handler into an http.Handler.
func (s *Server) answered(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.refuse(w, r, err)
		}
	})
}

// answer writes m as the answer.
func answer(w http.ResponseWriter, status int, m proto.Message) error {
	body, err := wirejson.Marshal(m)
	if err != nil {
		return err
	}
	header(w, len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body) // The client may have gone.
	return nil
}

func header(w http.ResponseWriter, length int) {
	h := w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Content-Length", strconv.Itoa(length))
	h.Set("Cache-Control", "no-store")
}

// refuse answers with err. No other function turns a fault into a body.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	f := public(fault.From(err))
	if errors.Is(f, fault.Internal) {
		s.deps.Log.ErrorContext(r.Context(), "request failed", "request_id", x.requestID, "method", r.Method, "path",
			r.URL.Path, "error", err)
	}
	if x.status != 0 {
		return
	}
	p := f.Proto()
	body, err := wirejson.Marshal(&apiv1.ErrorBody{Error: &apiv1.ErrorObject{
		Code: commonv1.ErrorCode(f.Code), Message: f.Msg, Details: p.GetDetails(), RequestId: x.requestID,
	}})
	if err != nil {
		// Only a detail can fail to marshal, so the code and the message are sent without details.
		s.refuse(w, r, fault.New(f.Code, "%s", f.Msg))
		return
	}
	header(w, len(body))
	if after := retryAfter(f); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	if allowed, ok := f.Details["allowed"].([]string); ok {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
	}
	w.WriteHeader(Status(f))
	_, _ = w.Write(body) // The client may have gone.
}

// public returns f as the API reports it.
func public(f *fault.Error) *fault.Error {
	if f.Code != fault.SessionAttached {
		return f
	}
	c := f.With("reason", f.Code.String())
	c.Code = fault.Conflict
	return c
}

// Status returns the HTTP status of f: its own status, else that of its code, else the usual one for the code's
// gRPC status.
func Status(f *fault.Error) int {
	if f.HTTP != 0 {
		return f.HTTP
	}
	spec := f.Code.Spec()
	if spec.GetHttp() != 0 {
		return int(spec.GetHttp())
	}
	return runtime.HTTPStatusFromCode(codes.Code(spec.GetGrpc()))
}

// retryAfter returns the seconds until a retry makes sense, 0 if unknown.
func retryAfter(f *fault.Error) int {
	switch ms := f.Details["retry_after_ms"].(type) {
	case float64:
		return int(math.Ceil(ms / 1000))
	case int:
		return (ms + 999) / 1000
	case int64:
		return int((ms + 999) / 1000)
	}
	if Status(f) == http.StatusServiceUnavailable {
		return 1
	}
	return 0
}
