package nodes

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"lockstep/devnet"
	"lockstep/internal/hedera"
)

// doorVariable makes this test's binary a door: it names the address behind it.
const doorVariable = "LOCKSTEP_TEST_DOOR"

func TestMain(m *testing.M) {
	if behind := os.Getenv(doorVariable); behind != "" {
		serveDoor(behind)
	}
	os.Exit(m.Run())
}

// serveDoor passes connections on to the address behind it until it is killed.
func serveDoor(behind string) {
	// An address of its own: once it is killed, nobody else may listen where it did, such as another test's network,
	// which would answer for the node and not know what the node has taken.
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254)))
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(listener.Addr().String() + "\n")
	for {
		conn, err := listener.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() {
			defer conn.Close()
			inside, err := net.Dial("tcp", behind)
			if err != nil {
				return
			}
			defer inside.Close()
			go func() {
				_, _ = io.Copy(inside, conn)
				_ = inside.Close()
			}()
			_, _ = io.Copy(conn, inside)
		}()
	}
}

// door is a process that stands before a consensus node. Killed, it takes the node's
// connections, and what was on its way in them, with it, and further ones are refused.
type door struct {
	addr string
	kill func()
}

// newDoors opens a door to each of the network's nodes. They come with their accounts.
func newDoors(t *testing.T, n *devnet.Network) map[hedera.ID]*door {
	t.Helper()
	doors := map[hedera.ID]*door{}
	for behind, account := range n.Nodes() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), doorVariable+"="+behind)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		t.Cleanup(kill)
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		id, err := hedera.ParseID(account)
		if err != nil {
			t.Fatal(err)
		}
		doors[id] = &door{addr: strings.TrimSpace(line), kill: kill}
	}
	return doors
}
