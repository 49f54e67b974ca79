// Package near holds what Lockstep knows of NEAR against near-api-js, unmodified, from
// npm: its transactions byte by byte, and the model of a chain that `lockstep dev --near`
// starts. On the model stand the tests of the manager's driver: the contract of all
// drivers, and managers as processes.
package near
