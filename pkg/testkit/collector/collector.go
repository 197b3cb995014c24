// Package collector is an OpenTelemetry collector for tests: it receives OTLP over HTTP and stores it.
package collector

import (
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	otlptracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	*otlptracev1.Span
	// Scope is the scope of its tracer, Service the name of its process.
	Scope, Service string
}

// Attr returns an attribute as text, "" if absent.
func (s Span) Attr(key string) string { return attr(s.GetAttributes(), key) }

func attr(list []*commonv1.KeyValue, key string) string {
	for _, kv := range list {
		if kv.GetKey() == key {
			if v, ok := kv.GetValue().GetValue().(*commonv1.AnyValue_StringValue); ok {
				return v.StringValue
			}
			return strings.TrimSpace(kv.GetValue().String())
		}
	}
	return ""
}

// Server is a collector. It is safe for concurrent use.
type Server struct {
	// URL is its address.
	URL string

	mu      sync.Mutex // guards the fields below
	spans   []Span
	metrics []string
	asked   []*http.Request
}

// Start starts a collector that lives as long as the test.
func Start(t testing.TB) *Server {
	s := &Server{}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// ServeHTTP receives an exporter's requests.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	if err == nil {
		err = s.take(r, data)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *Server) take(r *http.Request, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	if strings.HasSuffix(r.URL.Path, "/v1/metrics") {
		var req metricsv1.ExportMetricsServiceRequest
		if err := proto.Unmarshal(data, &req); err != nil {
			return err
		}
		for _, of := range req.GetResourceMetrics() {
			for _, scope := range of.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					s.metrics = append(s.metrics, m.GetName())
				}
			}
		}
		return nil
	}
	var req tracev1.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &req); err != nil {
		return err
	}
	for _, of := range req.GetResourceSpans() {
		service := attr(of.GetResource().GetAttributes(), "service.name")
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.spans = append(s.spans, Span{span, scope.GetScope().GetName(), service})
			}
		}
	}
	return nil
}

// Spans returns the received spans, in the order of their start.
func (s *Server) Spans() []Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := slices.Clone(s.spans)
	slices.SortStableFunc(spans, func(a, b Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return spans
}

// Metrics returns the names of the received metrics.
func (s *Server) Metrics() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Clone(s.metrics)
	slices.Sort(names)
	return slices.Compact(names)
}

// Requests returns the received requests.
func (s *Server) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// BlackHole returns the address of a server that accepts connections and never answers.
func BlackHole(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var taken sync.WaitGroup
	taken.Go(func() {
		var conns []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
		}
		for _, c := range conns {
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); taken.Wait() })
	return l.Addr().String()
}
