// Package fakellm is a model provider for tests: an HTTP server that speaks Anthropic's Messages API, OpenAI's
// Responses and Chat Completions APIs and Google's Gemini API as the providers do, event by event, and answers from a
// script.
//
//	srv := fakellm.Start(t)
//	srv.Script(fakellm.Steps(
//		fakellm.Step{fakellm.Tool("file.read", `{"path":"go.mod"}`)},
//		fakellm.Step{fakellm.GotResult("module demo"), fakellm.Say("It is called demo.")},
//	))
//	driver := anthropic.New(srv.Target("anthropic"), wire.Options{})
//
// A [Step] answers one request: it may first list demands on the request, then the parts of the answer: text, thinking,
// tool calls, delays, a refusal, or a typical defect of providers. The same steps work for every wire format; the
// request's path selects the format. Scripts also have a text form, see [ParseScript].
//
// The step for a request comes from the script registered for a marker in the conversation's first user text
// ([Server.ScriptFor]), else the one for its model ([Server.ScriptModel]), else from the function of [Server.Handle],
// else the script for each conversation ([Server.ScriptEach]), else the common one ([Server.Script]). A request without
// a script is answered with status 400 and fails the test, and so is a request that the real provider would refuse:
// empty text, calls without results, invalid names or ids.
//
// Goroutines: those of net/http. Everything may be called from any goroutine.
package fakellm
