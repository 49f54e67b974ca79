package mirrorrest

import (
	"net/http"
	"strings"
)

// A problem is an answer other than success: the HTTP status and the messages
// of the body {"_status":{"messages":[…]}} that every endpoint shares.
type problem struct {
	status   int
	messages []message
}

// A message is one entry of a problem. Detail and Data are pointers because one
// family of endpoints always sends them, if only empty, and the other leaves
// them out.
type message struct {
	Message string  `json:"message"`
	Detail  *string `json:"detail,omitempty"`
	Data    *string `json:"data,omitempty"`
}

// Error joins the messages for a log line.
func (p *problem) Error() string {
	texts := make([]string, len(p.messages))
	for i, m := range p.messages {
		texts[i] = m.Message
	}
	return strings.Join(texts, ", ")
}

func (p *problem) body() object {
	return object{"_status": object{"messages": p.messages}}
}

// badRequest is a 400 whose entries carry nothing but their text.
func badRequest(texts ...string) *problem {
	p := &problem{status: http.StatusBadRequest}
	for _, t := range texts {
		p.messages = append(p.messages, message{Message: t})
	}
	return p
}

// invalidParameter is the 400 for a value that does not parse.
func invalidParameter(name string) *problem { return badRequest("Invalid parameter: " + name) }

// notFound is the 404 of the endpoints that read records.
func notFound() *problem {
	return &problem{status: http.StatusNotFound, messages: []message{{Message: "Not found"}}}
}

// detailed is an error of the endpoints that execute code or read the network's
// own tables: the reason phrase as the message and the cause as the detail.
func detailed(status int, details ...string) *problem {
	p := &problem{status: status}
	for _, d := range details {
		p.messages = append(p.messages, fullMessage(http.StatusText(status), d, ""))
	}
	return p
}

// fullMessage is an entry with all three keys present.
func fullMessage(text, detail, data string) message {
	return message{Message: text, Detail: &detail, Data: &data}
}
