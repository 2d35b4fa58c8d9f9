-- A call keeps a processor until its turn is over; with many calls at once a tenant keeps
-- as many as it may.
-- want: limit timeout
-- only: process the processors are everybody's
-- limits: most
while true do end
