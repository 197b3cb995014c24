package harnesswire

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

//convert:use openTurn fromOpenTurn
//convert:one Continued contract.Continued *harnessv1.Continued ParentID=ParentInvocationId CallID=ToolCallId
//convert:with WorkedMS=WorkedMs >Messages=nil
//convert:one fromContinued *harnessv1.Continued contract.Continued ParentInvocationId=ParentID ToolCallId=CallID
//convert:with WorkedMs=WorkedMS >Messages=nil
//convert:both askedCall fromAskedCall contract.AskedCall *harnessv1.AskedCall CallID=ToolCallId
//convert:both spentBefore fromSpentBefore contract.SpentBefore *harnessv1.SpentBefore Agent=AgentPath

func openTurn(t *contract.Turn) *harnessv1.Turn {
	if t == nil {
		return nil
	}
	return Turn(*t)
}

func fromOpenTurn(p *harnessv1.Turn) *contract.Turn {
	if p == nil {
		return nil
	}
	t := FromTurn(p)
	return &t
}

// FromContinued is the reverse of [Continued], with the messages, which travel in pieces.
func FromContinued(p *harnessv1.Continued) contract.Continued {
	c := fromContinued(p)
	for _, m := range p.GetMessages() {
		c.Messages = append(c.Messages, llmproto.FromMessage(m))
	}
	return c
}

// ContinuedMessages returns messages of an invocation that goes on.
func ContinuedMessages(list []llm.Message) []*harnessv1.Message {
	out := make([]*harnessv1.Message, len(list))
	for i, m := range list {
		out[i] = llmproto.Message(m)
	}
	return out
}
