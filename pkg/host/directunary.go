package host

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/rpc"
)

// Invoke makes a unary call.
func (d *direct) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) error {
	c, err := d.enter(ctx, name)
	if err != nil {
		return err
	}
	defer c.cancel()
	u := &unary{call: c, transport: transport{method: name}}
	if rpc.IsInPlace(opts) {
		u.serve(func(to any) error { return copyMessage(to, args) })
	} else if err := u.elsewhere(args); err != nil {
		return d.answer(err)
	}
	u.transport.tell(opts)
	if u.err != nil {
		return d.answer(u.err)
	}
	return copyMessage(reply, u.reply)
}

// unary is a running unary call.
type unary struct {
	*call
	transport transport
	reply     any
	err       error
}

// elsewhere runs the handler on a goroutine of its own. It fails when the caller's context ends before the handler.
func (u *unary) elsewhere(args any) error {
	request, err := clone(args)
	if err != nil {
		u.left()
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		grow()
		u.serve(request.moveTo)
	}()
	select {
	case <-served:
		return nil
	case <-u.ctx.Done():
		return status.FromContextError(u.ctx.Err()).Err()
	}
}

// serve runs the handler.
func (u *unary) serve(decode func(any) error) {
	defer u.left()
	ctx, cancel := u.served(&u.transport)
	defer cancel()
	u.reply, u.err = u.method.unary.Handler(u.method.service, ctx, decode, u.direct.unary)
}
