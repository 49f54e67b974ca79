package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

type redisReply string

func (r redisReply) Error() string { return string(r) }
func (redisReply) RedisError()     {}

var _ redis.Error = redisReply("")

// Anybody may read why an upstream is out, and learns no address of it.
func TestPublicCausesNameNoAddress(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6379}
	dial := func(err error) error {
		return fmt.Errorf("redis: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: err})
	}
	for want, err := range map[string]error{
		"connection refused":                dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"no route to host":                  dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
		"no answer in time":                 dial(context.DeadlineExceeded),
		"the name of its host is not known": dial(&net.DNSError{Err: "no such host", Name: "redis.internal", Server: "10.1.2.1:53", IsNotFound: true}),
		"Redis answers MOVED":               redisReply("MOVED 3999 10.1.2.3:6381"),
		"it does not answer; the log of the relay has the cause": errors.New("tls: 10.1.2.3 is not in the certificate"),
	} {
		if got := publicCause(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
