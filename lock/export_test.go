package lock

// RedisUp tells whether Redis decides the order at the moment.
func (s *Service) RedisUp() bool { return s.remote != nil && s.remote.up.Load() }

// Epoch returns how often Redis was missed, or used again, or gave this process another name.
func (s *Service) Epoch() uint64 { return s.remote.epoch.Load() }

// Pushed tells whether grants arrive over Pub/Sub at the moment.
func (s *Service) Pushed() bool { return s.remote != nil && s.remote.pushed.Load() }

// Instance returns the name under which the service owns things in Redis.
func (s *Service) Instance() string { return s.remote.process }

// Sizes returns the numbers of lanes in use and idle.
func (s *Service) Sizes() (busy, idle int) { return s.reg.sizes() }
