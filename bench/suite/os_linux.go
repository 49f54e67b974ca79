package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// perAddress is how many connections come from one address.
	perAddress = 1000
	// opening is how many connections may be without their subscription at a time.
	opening = 32
)

// listen opens the connections and reads them, in one goroutine and without one for each, until ctx ends: the load is
// to leave as much of the processors to the relays as it can.
func (ls *listeners) listen(ctx context.Context, relay string, count, network int) error {
	to, err := netip.ParseAddrPort(relay)
	if err != nil {
		return err
	}
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	p := &listenPoller{listeners: ls, poller: poller, to: to, network: network, conns: map[int32]*listener{}, in: make([]byte, 256<<10)}
	defer p.close()
	events := make([]unix.EpollEvent, 256)
	for opened := 0; ctx.Err() == nil; {
		for ; opened < count && opened-p.seated < opening; opened++ {
			if err := p.open(opened); err != nil {
				return err
			}
		}
		const patience = 100 // ms, until the end of ctx is noticed
		n, err := unix.EpollWait(poller, events, patience)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if err := p.read(events[:max(n, 0)]); err != nil {
			return err
		}
	}
	return nil
}

// listenPoller reads all connections of a process.
type listenPoller struct {
	*listeners
	poller  int
	to      netip.AddrPort
	network int
	conns   map[int32]*listener // by file
	in      []byte
	seated  int // connections with a subscription
}

func (p *listenPoller) close() {
	for fd := range p.conns {
		_ = unix.Close(int(fd)) // the relay notices
	}
	_ = unix.Close(p.poller) // nothing is left to say
}

// open opens the n-th connection and asks for the upgrade.
func (p *listenPoller) open(n int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("connection %d: %w", n, err)
	}
	address := n / perAddress
	from := unix.SockaddrInet4{Addr: [4]byte{127, byte(p.network), byte(address >> 8), byte(address&0xff) + 1}}
	to := unix.SockaddrInet4{Addr: p.to.Addr().As4(), Port: int(p.to.Port())}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.Bind(fd, &from),
		unix.Connect(fd, &to), // waits, for the relay to accept
		unix.SetNonblock(fd, true),
		write(fd, []byte(upgradeCall)),
		unix.EpollCtl(p.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("connection %d: %w", n, err), unix.Close(fd))
	}
	p.conns[int32(fd)] = p.add()
	return nil
}

// write sends what is so short that there is room for it.
func write(fd int, text []byte) error {
	n, err := unix.Write(fd, text)
	if err == nil && n < len(text) {
		return errors.New("no room in an empty socket")
	}
	return err
}

// read reads the connections that have something.
func (p *listenPoller) read(events []unix.EpollEvent) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		n, err := unix.Read(int(e.Fd), p.in)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			if err := p.drop(e.Fd); err != nil {
				return err
			}
			continue
		}
		reply, err := p.take(p.conns[e.Fd], p.in[:n], time.Now())
		if err == nil && reply != nil {
			err = write(int(e.Fd), reply)
		}
		if err != nil {
			return err
		}
	}
	p.seated = p.Subscribed + p.Closed
	return nil
}

// drop forgets a connection that the relay has ended.
func (p *listenPoller) drop(fd int32) error {
	p.Closed++
	delete(p.conns, fd)
	return unix.Close(int(fd))
}
