// Package e2e runs real clients against the real binary.
//
// Each test builds on the same three steps: start the program on ports of the
// kernel's choice, let an unmodified client use it as its manual says, and
// compare what the client reports with what must be true. Nothing of ours is
// imported; the program is known only by its command line, its environment, and
// what it sends over the wire.
//
// # Clients
//
//   - cast and forge (foundry), as processes;
//   - ethers, viem, web3.js and the Hedera JavaScript SDK: scripts in clients/,
//     each of which reads one JSON object from stdin and prints one to stdout;
//   - go-ethereum's ethclient, in the test itself;
//   - net/http, for requests that no library would send.
//
// package-lock.json pins their versions and scripts/setup.sh installs them. The
// contracts they deploy are in contracts/, compiled by solc-js when a test first
// needs them.
//
// # Running
//
//	make setup                                                # once: the client programs
//	make e2e                                                  # everything
//	go test -count=1 ./e2e -run 'TestJavaScript/^viem$' -v    # one client
//	go test -count=1 ./e2e/txm -run 'TestBump$' -v            # one test of another room
//	LOCKSTEP_BINARY=/tmp/lockstep go test ./e2e               # a binary built elsewhere, with -race for instance
//
// With -short the package does nothing, because it needs Node.js and a build.
//
// # Order
//
// The tests of bursts do not stop at "all receipts say success". They read the
// devnet's consensus log, the list of transactions in the order in which the
// network decided them, and fail on the first nonce that came out of turn.
package e2e
