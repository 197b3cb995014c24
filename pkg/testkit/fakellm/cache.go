package fakellm

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/llm"
)

// The rules of the prompt caches, as Anthropic and OpenAI document them.
const (
	// cacheKept is the time for which an unused entry is kept.
	cacheKept = 5 * time.Minute
	// cacheMarks is the most cache marks of a request, and cacheLookback is the number of blocks, from a mark backwards,
	// at which Anthropic looks for an entry.
	cacheMarks    = 4
	cacheLookback = 20
	// prefixMinimum is the length from which OpenAI caches a prompt, and prefixStep the step of the cached length.
	prefixMinimum = 1024
	prefixStep    = 128
	// tokenBytes is the length of a token in bytes. [Usage] counts in the same way.
	tokenBytes = 4
)

// anthropicMinimum returns the length in tokens from which Anthropic caches a prompt for a model.
func anthropicMinimum(model string) int64 {
	switch {
	case strings.Contains(model, "haiku-4"), strings.Contains(model, "opus-4-5"):
		return 4096
	case strings.Contains(model, "haiku"):
		return 2048
	}
	return 1024
}

// cache holds the prefixes of prompts, each as a hash of everything before its end. It is safe for concurrent use.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[[sha256.Size]byte]time.Time // last use
}

// CachePrompts makes the server cache prompts as the providers do. The usage of an answer without [Usage] then reports
// the tokens read from the cache and written to it.
//
// Anthropic caches the tools, the system prompt and the messages, in this order, up to each block with cache_control,
// and reads the longest entry that ends at one of the 20 blocks before such a block. OpenAI caches any prompt from
// 1,024 tokens, in steps of 128, for requests with the same prompt_cache_key. Entries are separate for each key and
// model, and end five minutes after their last use. Google's prompts are not cached.
func (s *Server) CachePrompts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = &cache{now: time.Now, entries: map[[sha256.Size]byte]time.Time{}}
}

// promptPart is a part of a prompt: its bytes without the cache mark.
type promptPart struct {
	bytes []byte
	mark  bool
}

func (p promptPart) tokens() int64 { return int64(len(p.bytes)) / tokenBytes }

// usage returns the input tokens of a request, and stores its prefixes.
func (c *cache) usage(r *Request) llm.Usage {
	scope := string(r.Format) + " " + r.Model + " " + r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Format {
	case Anthropic:
		return c.marked(scope, anthropicPrompt(r.Body), anthropicMinimum(r.Model))
	case OpenAI, OpenAIChat:
		prompt, key := openaiPrompt(r.Body)
		return c.prefix(scope+" "+key, prompt)
	}
	return llm.Usage{Input: int64(max(1, len(r.Body)/tokenBytes))}
}

// marked counts a prompt by Anthropic's rules.
func (c *cache) marked(scope string, prompt []promptPart, minimum int64) llm.Usage {
	hash := sha256.New()
	hash.Write([]byte(scope))
	ends := make([][sha256.Size]byte, len(prompt)) // the hash of the prompt up to each part
	upTo := make([]int64, len(prompt))             // its tokens
	total := int64(0)
	for i, p := range prompt {
		fmt.Fprintf(hash, "%d ", len(p.bytes))
		hash.Write(p.bytes)
		total += p.tokens()
		ends[i], upTo[i] = [sha256.Size]byte(hash.Sum(nil)), total
	}
	var read, marked int64
	for i, p := range prompt {
		if !p.mark || upTo[i] < minimum {
			continue
		}
		marked = upTo[i]
		for at := i; at >= 0 && at > i-cacheLookback; at-- {
			if c.live(ends[at]) {
				read = max(read, upTo[at])
				break
			}
		}
	}
	for i, p := range prompt {
		if p.mark && upTo[i] >= minimum {
			c.entries[ends[i]] = c.now()
		}
	}
	return llm.Usage{Input: total - marked, CacheRead: read, CacheWrite: marked - read}
}

// prefix counts a prompt by OpenAI's rules.
func (c *cache) prefix(scope string, prompt []byte) llm.Usage {
	hash := sha256.New()
	hash.Write([]byte(scope))
	read, matches := int64(0), true
	for end := prefixStep * tokenBytes; end <= len(prompt); end += prefixStep * tokenBytes {
		hash.Write(prompt[end-prefixStep*tokenBytes : end])
		sum := [sha256.Size]byte(hash.Sum(nil))
		if matches = matches && c.live(sum); matches {
			read = int64(end) / tokenBytes
		}
		if len(prompt) >= prefixMinimum*tokenBytes {
			c.entries[sum] = c.now()
		}
	}
	if read < prefixMinimum {
		read = 0
	}
	return llm.Usage{Input: int64(max(1, len(prompt)/tokenBytes)) - read, CacheRead: read}
}

// live reports whether an entry exists, and prolongs it.
func (c *cache) live(key [sha256.Size]byte) bool {
	used, ok := c.entries[key]
	if !ok || c.now().Sub(used) > cacheKept {
		delete(c.entries, key)
		return false
	}
	c.entries[key] = c.now()
	return true
}

// anthropicPrompt returns the parts of a prompt in the order in which Anthropic caches it. The parameters that
// invalidate the cached messages stand before these.
func anthropicPrompt(body []byte) []promptPart {
	var b struct {
		Tools    []json.RawMessage `json:"tools"`
		System   json.RawMessage   `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		ToolChoice json.RawMessage `json:"tool_choice"`
		Thinking   json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil // the request was parsed before
	}
	var out []promptPart
	for _, t := range b.Tools {
		out = append(out, partOf("", t))
	}
	out = append(out, partsOf("system", b.System)...)
	settings := string(b.ToolChoice) + string(b.Thinking)
	for _, m := range b.Messages {
		out = append(out, partsOf(settings+m.Role, m.Content)...)
	}
	return out
}

// partsOf returns the blocks of a content, which is a text or a list.
func partsOf(role string, content json.RawMessage) []promptPart {
	var blocks []json.RawMessage
	if len(content) == 0 {
		return nil
	}
	if json.Unmarshal(content, &blocks) != nil {
		return []promptPart{partOf(role, content)}
	}
	out := make([]promptPart, len(blocks))
	for i, b := range blocks {
		out[i] = partOf(role, b)
	}
	return out
}

func partOf(role string, block json.RawMessage) promptPart {
	var members map[string]json.RawMessage
	if json.Unmarshal(block, &members) != nil {
		return promptPart{bytes: append([]byte(role), block...)}
	}
	mark, found := members["cache_control"]
	delete(members, "cache_control")
	plain, err := json.Marshal(members)
	if err != nil {
		plain = block
	}
	return promptPart{bytes: append([]byte(role), plain...), mark: found && string(mark) != "null"}
}

// openaiPrompt returns a prompt in the order in which OpenAI caches it, and its prompt_cache_key.
func openaiPrompt(body []byte) (prompt []byte, key string) {
	var b struct {
		Key          string          `json:"prompt_cache_key"`
		Tools        json.RawMessage `json:"tools"`
		Instructions json.RawMessage `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Messages     json.RawMessage `json:"messages"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil, "" // the request was parsed before
	}
	for _, part := range []json.RawMessage{b.Tools, b.Instructions, b.Input, b.Messages} {
		prompt = append(prompt, part...)
	}
	return prompt, b.Key
}

// tooManyMarks returns Anthropic's refusal of a request with too many cache marks, "" for a valid one.
func tooManyMarks(body []byte) string {
	n := 0
	for _, p := range anthropicPrompt(body) {
		if p.mark {
			n++
		}
	}
	if n <= cacheMarks {
		return ""
	}
	return fmt.Sprintf("A maximum of %d blocks with cache_control may be provided. Found %d.", cacheMarks, n)
}
