package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core"
	"kaged.dev/services/harness/internal/core/compile"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Compile turns project files into a snapshot, or says what is wrong or still wanted.
func (s *Server) Compile(ctx context.Context, req *harnessv1.CompileRequest) (*harnessv1.CompileResponse, error) {
	tools, err := s.deps.Workspaces.Open(req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	out, err := compile.Compile(compile.Input{
		Files:         filesFromProto(req.GetFiles()),
		OperatorTools: switchesFromProto(req.GetDefaultTools()),
		Catalogue:     func() (core.Catalogue, error) { return tools.Catalogue(ctx) },
	})
	if err != nil {
		return nil, err
	}
	resp := &harnessv1.CompileResponse{
		Compiled: projectToProto(out.Project), Diagnostics: diagnosticsToProto(out.Diagnostics), Wanted: out.Wanted,
		Aliases: referencesToProto(out.Aliases, true), Prompts: referencesToProto(out.Prompts, false),
	}
	if resp.Compiled != nil {
		if resp.Hash, err = hash(resp.Compiled); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// hash identifies a snapshot by its deterministic encoding.
func hash(p *harnessv1.CompiledProject) (string, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "The snapshot cannot be encoded.")
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
