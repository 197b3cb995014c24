package rpc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/health" // registers the client-side health check
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"kaged.dev/pkg/mtls"
)

// DefaultCallTimeout limits a unary call between hosts that has no deadline.
const DefaultCallTimeout = 5 * time.Minute

// handshakeTimeout is the time in which a new TCP connection must present its certificate.
const handshakeTimeout = 10 * time.Second

// Between are the options of a client that calls a service on another host.
type Between struct {
	// TLS is this process's certificate, Want the service's identity.
	TLS  *mtls.Material
	Want mtls.Identity
	// Replicas distributes calls in turn over all healthy addresses of the name. Without it the address belongs to one
	// process.
	Replicas bool
	// CallTimeout limits unary calls without a deadline.
	CallTimeout time.Duration
}

// DialOptions returns the options of such a client. Unlike those of a client on the same host they let gRPC measure the
// size of windows, because a connection between hosts may be long and wide.
//
// A failed call is retried if it was unavailable and the contract gives the method an idempotency_level. Retries stop
// once they exceed a tenth of the calls.
func (b Between) DialOptions() []grpc.DialOption {
	return append(dialOptions(),
		grpc.WithTransportCredentials(b.TLS.Client(b.Want)),
		grpc.WithDisableServiceConfig(), // DNS cannot override the config
		grpc.WithDefaultServiceConfig(serviceConfig(b.Replicas)),
		grpc.WithChainUnaryInterceptor(deadline(b.CallTimeout)),
	)
}

// deadline limits calls without a deadline.
func deadline(limit time.Duration) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		return next(ctx, method, req, reply, cc, opts...)
	}
}

// The types of gRPC's service config.
type (
	config struct {
		Balancing []map[string]struct{} `json:"loadBalancingConfig,omitempty"`
		Health    *healthConfig         `json:"healthCheckConfig,omitempty"`
		Methods   []methodConfig        `json:"methodConfig,omitempty"`
		Budget    *retryBudget          `json:"retryThrottling,omitempty"`
	}
	healthConfig struct {
		Service string `json:"serviceName"`
	}
	methodConfig struct {
		Names []methodName `json:"name"`
		Retry retryPolicy  `json:"retryPolicy"`
	}
	methodName struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	retryPolicy struct {
		Attempts int      `json:"maxAttempts"`
		First    string   `json:"initialBackoff"`
		Last     string   `json:"maxBackoff"`
		Factor   float64  `json:"backoffMultiplier"`
		Codes    []string `json:"retryableStatusCodes"`
	}
	// retryBudget is a bucket: a success adds ratio tokens, a failure removes one, and calls are retried while it is more
	// than half full.
	retryBudget struct {
		Tokens int     `json:"maxTokens"`
		Ratio  float64 `json:"tokenRatio"`
	}
)

func serviceConfig(replicas bool) string {
	var c config
	if replicas {
		c.Balancing, c.Health = []map[string]struct{}{{"round_robin": {}}}, &healthConfig{}
	}
	if names := retried(); len(names) > 0 {
		c.Methods = []methodConfig{{names, retryPolicy{3, "0.05s", "0.5s", 2, []string{"UNAVAILABLE"}}}}
		c.Budget = &retryBudget{10, 0.1}
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // the value holds strings and numbers
	}
	return string(text)
}

// retried returns the unary methods with an idempotency_level.
func retried() (names []methodName) {
	methods(func(m protoreflect.MethodDescriptor) {
		options, _ := m.Options().(*descriptorpb.MethodOptions)
		if m.IsStreamingClient() || m.IsStreamingServer() ||
			options.GetIdempotencyLevel() == descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN {
			return
		}
		names = append(names, methodName{string(m.Parent().FullName()), string(m.Name())})
	})
	slices.SortFunc(names, func(a, b methodName) int {
		return strings.Compare(a.Service+a.Method, b.Service+b.Method)
	})
	return names
}
