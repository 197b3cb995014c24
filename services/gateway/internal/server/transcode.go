package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	"kaged.dev/proto/gen/backends"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// transcoder returns a handler of the contract's routes, which calls their backends.
func (s *Server) transcoder() (http.Handler, error) {
	installQueryParser()
	none := func(string) (string, bool) { return "", false }
	table := answers(backends.All())
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		// The caller travels in the context. Of a client's headers only If-Match becomes metadata.
		runtime.WithIncomingHeaderMatcher(func(name string) (string, bool) { return ifMatch, name == headerIfMatch }),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		// Clients cannot override the method of the request line.
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithForwardResponseOption(table.setStatus),
		runtime.WithForwardResponseRewriter(table.rewrite),
		runtime.WithErrorHandler(func(
			_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error,
		) {
			s.refuse(w, r, unflatten(err))
		}),
		runtime.WithRoutingErrorHandler(func(
			_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int,
		) {
			s.refuse(w, r, fault.New(fault.NotFound, "There is no route %s.", shown(r.URL.Path)))
		}),
	)
	ctx := context.Background()
	var errs []error
	for _, b := range backends.All() {
		errs = append(errs, b.Register(ctx, mux, s.deps.Backend(b.Module)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The copy has no headers but If-Match. The transcoder would also forward Authorization and Grpc-Timeout.
		inner := r.WithContext(withAccept(r.Context(), r.Header.Values("Accept")))
		inner.Header = http.Header{}
		if version := r.Header.Get(headerIfMatch); version != "" {
			inner.Header.Set(headerIfMatch, version)
		}
		if r.Method == http.MethodHead {
			inner.Method = http.MethodGet // net/http omits the body
		}
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, inner)
	}), errors.Join(errs...)
}

// ifMatch is the metadata key of [headerIfMatch].
const ifMatch = "if-match"

// marshaler implements runtime.Marshaler with package wirejson.
type marshaler struct{}

// ContentType implements runtime.Marshaler.
func (marshaler) ContentType(any) string { return jsonType }

// Marshal implements runtime.Marshaler.
func (marshaler) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case bareText:
		return []byte(v), nil
	case proto.Message:
		return wirejson.Marshal(v)
	}
	return nil, fault.New(fault.Internal, "%T is no message.", v)
}

// Unmarshal implements runtime.Marshaler.
func (marshaler) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fault.New(fault.Internal, "%T is no message.", v)
	}
	return wirejson.Unmarshal(data, m)
}

// NewEncoder implements runtime.Marshaler.
func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// NewDecoder implements runtime.Marshaler. Decoding fails with io.EOF for an empty body, which some routes allow.
func (m marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			return flatten(tooLarge(large.Limit))
		case err != nil:
			return flatten(fault.Wrap(err, fault.BadRequest, "The body could not be read to its end."))
		case len(data) == 0:
			return io.EOF
		}
		return flatten(m.Unmarshal(data, v))
	})
}

// flat carries a fault through the transcoder's generated handlers, which keep only the text of an error. Its text
// encodes the whole fault.
type flat struct{ text string }

func (f flat) Error() string { return f.text }

// flatMark is the prefix of a flat's text. A client's text cannot be at the beginning of an error.
const flatMark = "kaged fault "

func flatten(err error) error {
	if err == nil {
		return nil
	}
	data, marshalErr := proto.Marshal(fault.From(err).Proto())
	if marshalErr != nil {
		return err
	}
	return flat{flatMark + string(data)}
}

// unflatten returns the fault of an error from the transcoder: a backend's fault unchanged, the gateway's own fault
// as it was before flatten, and any other error by its class.
func unflatten(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	var bad *runtime.HTTPStatusError
	if errors.As(err, &bad) {
		return fault.Wrap(err, fault.BadRequest, "The path or the query cannot be read.")
	}
	if text, ok := strings.CutPrefix(status.Convert(err).Message(), flatMark); ok {
		var p commonv1.Error
		if proto.Unmarshal([]byte(text), &p) == nil {
			return fault.FromProto(&p)
		}
	}
	if text, ok := strings.CutPrefix(status.Convert(err).Message(), mismatched); ok {
		name, _, _ := strings.Cut(text, ",")
		return wirejson.Invalid(name, "%s in the path must be a whole number of at most 64 bits.", name)
	}
	return rpc.FromStatus(err)
}

// mismatched is the prefix of the transcoder's error for a path parameter of the wrong type. Only parameters of
// type integer can cause it.
const mismatched = "type mismatch, parameter: "

// installQueryParser sets the transcoder's query parser, which is a global variable of its package.
var installQueryParser = sync.OnceFunc(func() { runtime.SetQueryParameterParser(queryParser{})(nil) })
