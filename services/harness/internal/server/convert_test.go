package server

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/rpc"
)

// The largest answer that the configuration allows fits into one message, in any division into blocks.
func TestTheLargestTurnIsOneMessage(t *testing.T) {
	const perBlock = 256 // an answer's overhead for each block
	name := strings.Repeat("n", 64)
	calls := make([]llm.Block, rpc.MaxMessage/(perBlock+2*len(name)))
	for i := range calls {
		calls[i] = llm.Block{Call: &llm.ToolCall{ID: name, Name: name, Input: "{}"}}
	}
	for _, blocks := range [][]llm.Block{{{Text: &llm.Text{Text: strings.Repeat("x", rpc.MaxMessage-perBlock)}}}, calls} {
		turn := contract.Turn{Step: 1, Blocks: blocks, Stop: llm.StopToolUse, Provider: "anthropic", Model: name}
		ev, err := harnesswire.Event(contract.Happening{InvocationID: ident.New(), Event: contract.TurnDone{Turn: turn}})
		if n := proto.Size(ev); err != nil || n > rpc.MaxMessage {
			t.Errorf("a turn of %d blocks takes %d bytes, %v", len(blocks), n, err)
		}
	}
}
